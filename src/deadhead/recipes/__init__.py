"""Recipes that come with deadhead: data only, a YAML file each. `deadhead recipes` lists them."""
