"""YAML as nodes that know their line and column. What a node means is not decided here."""
