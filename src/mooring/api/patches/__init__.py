"""JSON patches, merge patches, strategic merge patches and server-side apply."""
