"""Functions that code of the user's jits while `jax.jit` is held: they stay what they were, and so does `jax.jit`."""

import copy
import functools
import inspect

import jax

from fitscope.observe import compiled_steps
from fitscope.observe.compiled_steps import Jitted
from fitscope.observe.recorder import recorder
from fitscope.observe.seams import Seams

seams = Seams(recorder)
compiled_steps.hold_jit(seams)


@jax.jit
def twice(x):
    """Twice as much."""
    return 2 * x


assert isinstance(twice, Jitted)
assert twice(3.0) == 6.0
assert (twice.__name__, twice.__doc__, twice.__module__) == ("twice", "Twice as much.", "__main__")
assert str(inspect.signature(twice)) == "(x)"
assert twice.lower(3.0).compile()(3.0) == 6.0
assert jax.grad(twice)(1.0) == 2.0
assert list(jax.vmap(twice)(jax.numpy.arange(3.0))) == [0.0, 2.0, 4.0]
assert jax.jit(lambda x: twice(x) + 1)(1.0) == 3.0
assert isinstance(twice, jax.stages.Wrapped)
assert twice.__wrapped__(4) == 8

x, rows = jax.numpy.arange(3.0), jax.numpy.ones((4, 3))
squares = jax.jit(lambda x: (x**2).sum())
assert list(jax.jit(jax.grad(squares)).lower(x).compile()(x)) == [0.0, 2.0, 4.0]
assert len(jax.jit(jax.value_and_grad(squares)).lower(x).compile()(x)) == 2
assert jax.eval_shape(jax.grad(squares), x).shape == (3,)
assert jax.eval_shape(jax.vmap(squares), rows).shape == (4,)
assert jax.make_jaxpr(jax.grad(squares))(x).out_avals[0].shape == (3,)
assert copy.copy(twice)(3.0) == copy.deepcopy(twice)(3.0) == 6.0


class Model:
    @functools.partial(jax.jit, static_argnums=0)
    def scaled(self, x):
        return 10 * x

    @staticmethod
    @jax.jit
    def halved(x):
        return x / 2


@functools.partial(jax.jit, static_argnames="power")
def raised(x, power=2):
    return x**power


assert Model().scaled(2.0) == 20.0
assert Model.halved(3.0) == 1.5
assert raised(2.0, power=3) == 8.0

library = {"jax": jax, "__name__": "library"}
exec(compile("made = jax.jit(abs)", "/usr/lib/python3/site-packages/library.py", "exec"), library)
assert not isinstance(library["made"], Jitted)

seams.release()
assert not isinstance(jax.jit(abs), Jitted)
assert twice(4.0) == 8.0
print("all as ever")
