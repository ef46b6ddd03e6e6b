"""What differs between two clusters that should be the same: one that was kept up to date, and one that was built now."""
