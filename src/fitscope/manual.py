"""The manual page of a cause, made from its rule."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from fitscope.rules.rule import Rule

BACKENDS = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}


@dataclass(frozen=True)
class Page:
    """A manual page: its one sentence, and all of it as Markdown."""

    title: str
    text: str


def page(rule: Rule) -> Page:
    """The manual page of a rule: its docstring, and its examples."""
    paragraphs = inspect.cleandoc(type(rule).__doc__ or "").split("\n\n")
    title = " ".join(paragraphs[0].split())
    parts = [f"# {rule.name} ({rule.code}, {rule.family})", title, *paragraphs[1:]]
    for example in rule.examples:
        names = ", ".join(BACKENDS[backend] for backend in example.backends)
        parts.append(f"## Example ({names})")
        parts.append(f"Slow:\n\n```python\n{example.slow.strip()}\n```")
        parts.append(f"Fast:\n\n```python\n{example.fast.strip()}\n```")
    parts.append(f"To silence it in the linter: `# fitscope: allow {rule.name}`")
    return Page(title, "\n\n".join(parts))
