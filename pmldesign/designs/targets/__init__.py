"""From accuracies that are asked for to the least budget of privacy."""
