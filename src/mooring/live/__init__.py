"""The scheduler beside a running API server: driver, writers, leader election, metrics."""
