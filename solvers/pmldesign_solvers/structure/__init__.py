"""What symmetries and products of attributes leave to compute."""
