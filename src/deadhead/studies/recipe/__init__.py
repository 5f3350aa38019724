"""A recipe: one screen of YAML, loaded, overridden, checked whole and expanded into trials."""
