import jax, keras, numpy as np

x = np.random.default_rng(0).random((1600, 16)).astype("float32")
y = x[:, :1].copy()
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam()
optimizer.build(model.trainable_variables)

def loss(weights, state, features, target):
    answer, state = model.stateless_call(weights, state, features, training=True)
    return keras.ops.mean(keras.ops.square(answer - target)), state

gradient = jax.value_and_grad(loss, has_aux=True)

def train_step(weights, state, moments, features, target):
    (_, state), gradients = gradient(weights, state, features, target)
    weights, moments = optimizer.stateless_apply(moments, gradients, weights)
    return weights, state, moments

weights, state = [v.value for v in model.trainable_variables], [v.value for v in model.non_trainable_variables]
moments = [v.value for v in optimizer.variables]
for epoch in range(8):
    for start in range(0, len(x), 32):
        batch = x[start:start + 32], y[start:start + 32]
        weights, state, moments = train_step(weights, state, moments, *batch)
