"""Who a client is: tokens, certificates, exec plugins, the service account of a pod."""
