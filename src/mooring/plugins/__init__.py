"""The plugins, one file each, under the names that users type in KubeSchedulerConfiguration."""
