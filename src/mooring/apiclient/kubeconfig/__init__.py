"""Reading, merging and writing kubeconfig files."""
