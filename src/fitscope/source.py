"""A training script as the rules read it: models, callbacks, loaders, pipelines, and never run."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from fitscope.names import FUNCTIONS, Function, line_of, listed
from fitscope.pipelines import Chain, Link, chains
from fitscope.syntax import Syntax

FRAMEWORKS = frozenset({"jax", "keras", "tensorflow", "torch"})
MODEL_MAKERS = listed(
    "keras.Model keras.Sequential keras.models.clone_model keras.models.load_model keras.models.model_from_json "
    "keras.saving.load_model"
)
MODEL_METHODS = listed(
    "compile evaluate export fit fit_generator predict predict_on_batch save save_weights test_on_batch "
    "train_on_batch"
)
LOADER_BASES = listed(
    "keras.utils.PyDataset keras.utils.Sequence keras.utils.data_utils.Sequence torch.utils.data.Dataset "
    "torch.utils.data.dataset.Dataset"
)
INTO_PYTHON = listed(
    "jax.experimental.io_callback jax.pure_callback tensorflow.numpy_function tensorflow.py_func "
    "tensorflow.py_function"
)
"""Calls by which a graph leaves for a Python function and comes back."""

BATCH_HOOKS = frozenset(
    f"on_{kind}batch_{end}" for kind in ("", "train_", "test_", "predict_") for end in ("begin", "end")
)
WAITS = listed(
    "aiohttp. boto3. ftplib. gcsfs. google.cloud. http.client. httpx. paramiko. psycopg2. pymongo. redis. requests. "
    "s3fs. smtplib. socket. sqlite3. subprocess. time.sleep urllib.request. urllib3."
)
"""What waits for something outside the process."""

READS = listed(
    ".read_bytes .read_text PIL.Image.open SimpleITK. cv2.imread h5py. imageio. joblib.load json.load "
    "keras.preprocessing.image.load_img keras.utils.load_img librosa.load matplotlib.image.imread "
    "matplotlib.pyplot.imread nibabel. numpy.fromfile numpy.genfromtxt numpy.load numpy.loadtxt numpy.memmap open "
    "pandas.read_ pickle.load pydicom. rasterio. scipy.io. skimage.io. soundfile. tensorflow.io.gfile. "
    "tensorflow.io.read_file tifffile. torchaudio.load torchvision.io. zarr."
)
"""What reads a file."""

NATIVE = listed("PIL. SimpleITK. cv2. librosa. scipy. skimage. tensorflow.io. tensorflow.image. torch. torchvision.")
"""What computes outside the interpreter, so that several calls can run at once."""

RANDOM = listed("keras.random. tensorflow.image.random_ tensorflow.image.stateless_random_ tensorflow.random.")
DECODES = listed(
    "tensorflow.audio.decode_ tensorflow.image.decode_ tensorflow.io.decode_ tensorflow.io.parse_ "
    "tensorflow.io.read_file"
)
SHAPE_ONLY = listed("hasattr isinstance keras.backend.int_shape keras.ops.shape len tensorflow.rank tensorflow.shape")
"""What is told by the shape or the type of a value alone."""

ARRAYS = listed(
    "jax.numpy.array jax.numpy.asarray keras.ops.array keras.ops.convert_to_tensor numpy.array numpy.asarray "
    "numpy.float32 tensorflow.cast tensorflow.constant tensorflow.convert_to_tensor torch.as_tensor torch.tensor"
)
"""What makes an array of what it is given, row by row."""


@dataclass(frozen=True)
class Callback:
    """A class of callbacks, or an object made of functions, with the hooks that it has."""

    name: str
    line: int
    hooks: dict[str, Function]


@dataclass(frozen=True)
class Loader:
    """A function of the user's that makes input: examples or batches."""

    kind: str
    """item (of a PyDataset or torch Dataset), generator, or python (called from a graph)."""
    function: Function


@dataclass(frozen=True)
class Inner:
    """A function of the user's that runs inside the model: what it computes is computed in every step."""

    kind: str
    """call, train_step, loss or metric."""
    function: Function
    tensors: frozenset[str]
    """Its parameters that are tensors."""


class Script(Syntax):
    """A training script: what it gives to Keras, and what Keras will do with it."""

    @property
    def trains(self) -> bool:
        """Whether the script has to do with training at all, by what it imports."""
        return bool(self.modules & FRAMEWORKS)

    def is_model(self, node: ast.AST, depth: int = 5) -> bool:
        """Whether an expression is a Keras model, by how it was made or by what is done with it."""
        if depth == 0:
            return False
        if isinstance(node, ast.Call):
            return self._makes(node, depth, models=True)
        if isinstance(node, ast.Attribute) and node.attr == "model" and self._in_callback(node):
            return True
        if any(self.is_model(value, depth - 1) for value in self.values(node)):
            return True
        return isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in self._compiled_names

    def is_layer(self, node: ast.AST, depth: int = 5) -> bool:
        """Whether an expression is a Keras layer or model, by how it was made."""
        if depth == 0:
            return False
        if isinstance(node, ast.Call):
            return self._makes(node, depth, models=False) or self._makes(node, depth, models=True)
        return any(self.is_layer(value, depth - 1) for value in self.values(node))

    def _makes(self, call: ast.Call, depth: int, *, models: bool) -> bool:
        name = self.called(call)
        if models and (name in MODEL_MAKERS or (name.startswith("keras.applications.") and _is_class(name))):
            return True
        if not models and name.startswith("keras.layers.") and _is_class(name):
            return True
        made = self.local_class(call.func)
        if made is not None:
            return self.derives(made, {"keras.Model", "keras.Sequential"} if models else "keras.layers.")
        function = self.function(call.func)
        judge = self.is_model if models else self.is_layer
        return function is not None and any(judge(value, depth - 1) for value in self.returned(function))

    @cached_property
    def _compiled_names(self) -> set[str]:
        """What is compiled or fitted as only a Keras model is: that makes it one, wherever it comes from."""
        if not self.modules & {"keras", "tensorflow"}:
            return set()
        telling = {
            "compile": {"loss", "optimizer"},
            "fit": {"epochs", "callbacks", "validation_data", "steps_per_epoch"},
        }
        found = set()
        for call in self.calls:
            words = {keyword.arg for keyword in call.keywords}
            if isinstance(call.func, ast.Attribute) and (
                words & telling.get(call.func.attr, set()) or call.func.attr == "train_on_batch"
            ):
                found.add(ast.unparse(call.func.value))
        return found

    def model_calls(self, *methods: str) -> list[ast.Call]:
        """The calls of these methods of Keras models, in the order of the script."""
        return [call for call in self._model_calls if self.method(call) in methods]

    @cached_property
    def _model_calls(self) -> list[ast.Call]:
        found = []
        keras = bool(self.modules & {"keras", "tensorflow"})
        for call in self.calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr in MODEL_METHODS:
                words = {keyword.arg for keyword in call.keywords}
                telling = keras and "verbose" in words and call.func.attr in ("evaluate", "fit", "predict")
                if telling or self.is_model(call.func.value):
                    found.append(call)
        return found

    @cached_property
    def small_trainings(self) -> set[ast.Call]:
        """The calls that train on a single batch or row."""
        rows = [call for call in self.model_calls("fit") if self.one_row(self.argument(call, "x", 0))]
        return {*rows, *self.model_calls("train_on_batch")}

    def _in_callback(self, node: ast.AST) -> bool:
        owner = self.class_of(node)
        return owner is not None and self.derives(owner, "keras.callbacks.")

    @cached_property
    def _callbacks(self) -> list[Callback]:
        found = []
        for node in self.classes:
            if self.derives(node, "keras.callbacks.") and not self._relieved(node):
                methods = self.methods(node)
                hooks = {name: method for name, method in methods.items() if name.startswith("on_")}
                found.append(Callback(node.name, node.lineno, hooks))
        for call in self.calls:
            if self.called(call) == "keras.callbacks.LambdaCallback":
                given = {word.arg: self.function(word.value) for word in call.keywords if word.arg}
                hooks = {name: function for name, function in given.items() if function is not None}
                found.append(Callback("LambdaCallback", call.lineno, hooks))
        return found

    def _relieved(self, node: ast.ClassDef) -> bool:
        """Whether every callback of a class is given to a remedy, beside the training or less often."""
        made = [call for call in self.calls if self.local_class(call.func) is node]
        given = [
            value
            for call in self.calls
            if self.called(call) in ("fitscope.Background", "fitscope.Every") and call.args
            for value in (call.args[0], *self.values(call.args[0]))
        ]
        return bool(made) and all(call in given for call in made)

    def callbacks(self) -> list[Callback]:
        """The callbacks that the script defines, and that the training itself calls."""
        return self._callbacks

    def batch_hook_calls(self, hooks: Container[str] = BATCH_HOOKS) -> Iterator[ast.Call]:
        """The calls that callbacks make in every batch, without a condition."""
        seen: set[ast.Call] = set()
        for callback in self.callbacks():
            for name, hook in callback.hooks.items():
                if name in hooks:
                    for item in self.reached(hook):
                        if not item.guarded and item.node not in seen:
                            seen.add(item.node)
                            yield item.node

    @cached_property
    def _loaders(self) -> list[Loader]:
        found = []
        for node in self.classes:
            if self.derives(node, LOADER_BASES):
                item = self.methods(node).get("__getitem__")
                if item is not None:
                    found.append(Loader("item", item))
        for call in self.calls:
            name = self.called(call)
            if name in INTO_PYTHON:
                found += self._loader("python", self.function(self.argument(call, "func", 0)))
            elif name == "tensorflow.data.Dataset.from_generator":
                found += self._loader("generator", self.generator(self.argument(call, "generator", 0)))
            elif self.method(call) in ("fit", "fit_generator", "evaluate"):
                for data in (self.argument(call, "x", 0), self.argument(call, "validation_data")):
                    found += self._loader("generator", self.generator(data))
        unique: dict[Function, Loader] = {}
        for loader in found:
            unique.setdefault(loader.function, loader)
        return list(unique.values())

    def loaders(self) -> list[Loader]:
        """The functions that make input, in Python."""
        return self._loaders

    @staticmethod
    def _loader(kind: str, function: Function | None) -> list[Loader]:
        return [Loader(kind, function)] if function is not None else []

    def generator(self, node: ast.AST | None, depth: int = 3) -> Function | None:
        """The generator function behind an expression: itself, a call of it, or a lambda that calls it."""
        if node is None or depth == 0:
            return None
        if isinstance(node, ast.Call):
            function = self.function(node.func)
            if function is not None and self.is_generator(function):
                return function
        function = self.function(node)
        if isinstance(function, ast.Lambda):
            return self.generator(function.body, depth - 1)
        if function is not None and self.is_generator(function):
            return function
        for value in self.values(node):
            if found := self.generator(value, depth - 1):
                return found
        return None

    @cached_property
    def _inner(self) -> list[Inner]:
        found: list[Inner] = []
        for node in self.classes:
            methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
            if self.derives(node, "keras.layers.") or self.derives(node, {"keras.Model", "keras.Sequential"}):
                step = methods.get("train_step")
                if step is not None:
                    found.append(self._inside("train_step", step))
                # A model with a training step of its own may keep `call` for other uses.
                if "call" in methods and (
                    step is None or any(self.called(call) == "self" for call in self.own_calls(step))
                ):
                    found.append(self._inside("call", methods["call"]))
            elif self.derives(node, "keras.losses.") and "call" in methods:
                found.append(self._inside("loss", methods["call"]))
            elif self.derives(node, "keras.metrics.") and "update_state" in methods:
                found.append(self._inside("metric", methods["update_state"]))
        for call in self.calls:
            if self.called(call) == "keras.layers.Lambda":
                if function := self.function(self.argument(call, "function", 0)):
                    found.append(self._inside("call", function))
            elif self.method(call) == "compile":
                for kind, value in (
                    ("loss", self.argument(call, "loss", 1)),
                    ("metric", self.argument(call, "metrics", 3)),
                    ("metric", self.argument(call, "weighted_metrics")),
                ):
                    found += [self._inside(kind, function) for function in self._functions_in(value)]
        return list({item.function: item for item in found}.values())

    def inner(self) -> list[Inner]:
        """The functions that run inside the model: calls of layers, losses, metrics."""
        return self._inner

    def _inside(self, kind: str, function: Function) -> Inner:
        flags = (
            {"training", "mask", "return_attention_scores", "sample_weight"} if kind == "call" else {"sample_weight"}
        )
        return Inner(kind, function, frozenset(set(self.parameters(function)) - flags))

    def _functions_in(self, node: ast.AST | None) -> list[Function]:
        if isinstance(node, ast.List | ast.Tuple):
            return [found for item in node.elts for found in self._functions_in(item)]
        if isinstance(node, ast.Dict):
            return [found for item in node.values for found in self._functions_in(item)]
        if isinstance(node, ast.Name) and not self.function(node):
            values = self.values(node)
            return self._functions_in(values[0]) if len(values) == 1 else []
        function = self.function(node)
        return [function] if function is not None else []

    def depends(self, node: ast.AST, names: Iterable[str]) -> bool:
        """Whether the value of an expression comes from one of these, not only from its shape or type."""
        wanted = set(names)
        stack: list[ast.AST] = [node]
        while stack:
            item = stack.pop()
            if isinstance(item, ast.Attribute) and item.attr in ("shape", "ndim", "dtype", "name", "rank"):
                continue
            if isinstance(item, ast.Call) and self.called(item) in SHAPE_ONLY:
                continue
            if isinstance(item, ast.Name) and item.id in wanted:
                return True
            if not isinstance(item, FUNCTIONS):
                stack.extend(ast.iter_child_nodes(item))
        return False

    def spread(self, function: Function, names: Iterable[str]) -> frozenset[str]:
        """These names and all those of a function that are computed from them."""
        known = set(names)
        assigns = [
            node for node in self.own(function) if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign)
        ]
        for _ in range(4):
            before = len(known)
            for node in assigns:
                if node.value is not None and self.depends(node.value, known):
                    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                        known |= {item.id for item in ast.walk(target) if isinstance(item, ast.Name)}
            if len(known) == before:
                break
        return frozenset(known - {"self"})

    def one_row(self, node: ast.AST | None, depth: int = 3) -> bool:
        """Whether an expression is a batch of a single row: `x[None]`, `x[i:i + 1]`, `np.expand_dims(x, 0)`."""
        if isinstance(node, ast.Subscript):
            index = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
            return self._is_new_axis(index) or _is_one_wide(index)
        if isinstance(node, ast.BinOp):
            return self.one_row(node.left, depth) or self.one_row(node.right, depth)
        if isinstance(node, ast.List | ast.Tuple):
            return bool(node.elts) and all(self.one_row(item, depth) for item in node.elts)
        if isinstance(node, ast.Call):
            return self._makes_one_row(node, depth)
        if isinstance(node, ast.Name) and depth:
            function = self.function_of(node)
            for item in reversed(self.bindings(node)):
                if item.how == "assign" and line_of(item.node) <= node.lineno:
                    return self.function_of(item.node) is function and self.one_row(item.value, depth - 1)
            given = self.given(function, node.id) if function is not None else []
            return bool(given) and all(self.one_row(item, depth - 1) for item in given)
        return False

    def _makes_one_row(self, call: ast.Call, depth: int) -> bool:
        name = self.called(call)
        last = name.rpartition(".")[2]
        if last == "expand_dims":
            return self.literal(self.argument(call, "axis", 1)) == 0
        if last == "reshape":
            sizes = call.args if name.startswith(".") else call.args[1:]
            first = sizes[0] if sizes else None
            if isinstance(first, ast.Tuple | ast.List):
                first = first.elts[0] if first.elts else None
            return isinstance(first, ast.Constant) and first.value == 1
        if name in ARRAYS and call.args:
            rows = call.args[0]
            return (isinstance(rows, ast.List) and len(rows.elts) == 1) or self.one_row(rows, depth)
        if name == ".astype" and isinstance(call.func, ast.Attribute):
            return self.one_row(call.func.value, depth)
        return False

    def _is_new_axis(self, index: ast.AST) -> bool:
        return (isinstance(index, ast.Constant) and index.value is None) or self.dotted(index) in (
            "numpy.newaxis",
            "tensorflow.newaxis",
        )

    def waits(self, call: ast.Call) -> bool:
        """Whether a call waits for something outside the process: a network, a program, a clock."""
        name = self.called(call)
        if name.startswith(WAITS):
            return True
        if isinstance(call.func, ast.Attribute) and self.dotted(call.func) is None:
            return any(
                isinstance(value, ast.Call) and self.called(value).startswith(WAITS)
                for value in self.values(call.func.value)
            )
        return False

    def reads(self, call: ast.Call) -> bool:
        """Whether a call reads a file."""
        name = self.called(call)
        return any(name == item or (item.endswith((".", "_")) and name.startswith(item)) for item in READS)

    def calls_of(self, function: Function | None) -> list[ast.Call]:
        """The calls that a function makes, itself and through functions of the script."""
        return [item.node for item in self.reached(function)] if function is not None else []

    def goes_outside(self, function: Function | None) -> bool:
        """Whether a function waits for a network, reads files or works in native code: its time is not Python's."""
        calls = self.calls_of(function)
        return any(self.waits(call) or self.reads(call) or self.called(call).startswith(NATIVE) for call in calls)

    # --- tf.data -------------------------------------------------------------------------------------------

    @cached_property
    def _chains(self) -> list[Chain]:
        return chains(self) if self.modules & {"keras", "tensorflow"} else []

    def chains(self) -> list[Chain]:
        """The tf.data pipelines, each flattened over its assignments from its source to its last method."""
        return self._chains

    def links(self, *names: str) -> Iterator[tuple[Chain, Link]]:
        """The calls of these methods in all pipelines, each call once."""
        seen: set[ast.Call] = set()
        for chain in self.chains():
            for link in chain.links:
                if link.name in names and link.node not in seen:
                    seen.add(link.node)
                    yield chain, link

    def mapped(self, link: Link) -> Function | None:
        """The function of a `map`."""
        return self.function(self.argument(link.node, "map_func", 0))

    def python_of(self, link: Link) -> Function | None:
        """The Python function that a `map` calls from its graph, where it is in sight."""
        for call in self.calls_of(self.mapped(link)):
            if self.called(call) in INTO_PYTHON:
                return self.function(self.argument(call, "func", 0))
        return None

    def is_random(self, link: Link) -> bool:
        """Whether a `map` draws random numbers in TensorFlow operations or layers."""
        return any(
            self.called(call).startswith(RANDOM) or self._calls_random_layer(call)
            for call in self.calls_of(self.mapped(link))
        )

    def decodes(self, link: Link) -> bool:
        """Whether a `map` reads, parses or decodes records."""
        return any(self.called(call).startswith(DECODES) for call in self.calls_of(self.mapped(link)))

    def is_sequential(self, link: Link) -> bool:
        """Whether a `map` is written to handle one element at a time."""
        parallel = self.argument(link.node, "num_parallel_calls", 1)
        return parallel is None or (isinstance(parallel, ast.Constant) and parallel.value in (None, 1))

    def _calls_random_layer(self, call: ast.Call) -> bool:
        return any(
            isinstance(node, ast.Call) and self.called(node).startswith("keras.layers.Random")
            for value in (call.func, *self.values(call.func))
            for node in ast.walk(value)
        )


def _is_class(name: str) -> bool:
    return name.rpartition(".")[2][:1].isupper()


def _is_one_wide(index: ast.AST) -> bool:
    """Whether a slice is one row wide: `i:i + 1`, `0:1`, `:1`."""
    if not isinstance(index, ast.Slice) or index.upper is None or index.step is not None:
        return False
    low, high = index.lower, index.upper
    if isinstance(high, ast.Constant) and isinstance(high.value, int):
        start = 0 if low is None else low.value if isinstance(low, ast.Constant) else None
        return isinstance(start, int) and high.value - start == 1
    return (
        low is not None
        and isinstance(high, ast.BinOp)
        and isinstance(high.op, ast.Add)
        and isinstance(high.right, ast.Constant)
        and high.right.value == 1
        and ast.dump(high.left) == ast.dump(low)
    )
