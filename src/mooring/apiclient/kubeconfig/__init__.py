"""Reading, merging and writing kubeconfig files, and the connection settings that follow from them."""
