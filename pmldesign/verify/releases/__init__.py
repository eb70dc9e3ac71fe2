"""What a release publishes: manifests, and files of measurements."""
