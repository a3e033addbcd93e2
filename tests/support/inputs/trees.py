"""Playbooks with one value or key replaced by something else."""

from typing import Any

from hypothesis import strategies as st


def replaced(tree: Any, data: st.DataObject, values: st.SearchStrategy[Any], words: st.SearchStrategy[str]) -> Any:
    """A copy of the tree with one drawn value, and now and then one drawn key, in a drawn place."""
    if not tree or not isinstance(tree, dict | list) or data.draw(st.integers(0, 9)) == 0:
        return data.draw(values)
    if isinstance(tree, dict):
        key = data.draw(st.sampled_from(sorted(tree)))
        new = data.draw(words) if data.draw(st.integers(0, 9)) == 0 else key
        return {
            (new if each == key else each): (replaced(value, data, values, words) if each == key else value)
            for each, value in tree.items()
        }
    index = data.draw(st.integers(0, len(tree) - 1))
    return [*tree[:index], replaced(tree[index], data, values, words), *tree[index + 1 :]]
