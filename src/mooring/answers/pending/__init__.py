"""Everything that is pending at once: by owner and by reason, with the change that helps most pods."""
