"""Images and texts as they are read: decoded, or made into ids of words."""
