"""The columns of the node table: labels, amounts, ports, images, and the kernels that read them."""
