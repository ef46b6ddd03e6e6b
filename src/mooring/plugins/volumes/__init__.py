"""Plugins that look at volumes: VolumeBinding, VolumeRestrictions, VolumeZone and NodeVolumeLimits."""
