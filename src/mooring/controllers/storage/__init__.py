"""Storage and claims: volumes and their claims, ephemeral volumes, and claims for devices."""
