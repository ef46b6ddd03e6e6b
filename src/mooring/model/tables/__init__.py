"""What `kubectl get` prints of an object: columns, and the cells in them, with kube-apiserver's words."""
