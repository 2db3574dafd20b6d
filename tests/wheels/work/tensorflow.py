"""gradients, a traced function, Keras training, a dataset, a saved record, a typed error"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
import numpy as np
import tensorflow as tf


@tf.function
def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def work(tell):
    x = tf.constant(np.arange(12.0).reshape(3, 4) / 5)
    with tf.GradientTape() as tape:
        tape.watch(x)
        cost = tf.reduce_sum(tf.tanh(x @ tf.transpose(x)))
    tell("gradient", tape.gradient(cost, x).numpy())
    tell("function", collatz(tf.constant(27)).numpy())
    data = tf.data.Dataset.range(100).map(lambda i: i * i).filter(lambda i: i % 3 == 0).batch(7).prefetch(2)
    tell("dataset", [batch.numpy() for batch in data])
    tf.keras.utils.set_random_seed(7)
    model = tf.keras.Sequential([tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dense(1)])
    model.compile("adam", "mse")
    inputs = np.random.default_rng(1).standard_normal((64, 5)).astype("float32")
    model.fit(inputs, inputs[:, :1], epochs=2, batch_size=16, verbose=0, shuffle=False)
    tell("model", model.predict(inputs[:8], verbose=0).round(4))
    example = tf.train.Example(features=tf.train.Features(feature={"a": tf.train.Feature(int64_list=tf.train.Int64List(value=range(9)))}))
    parsed = tf.io.parse_single_example(example.SerializeToString(), {"a": tf.io.FixedLenFeature([9], tf.int64)})
    tell("example", parsed["a"].numpy())
    tell("callback", tf.numpy_function(lambda a: a * 3, [np.arange(5)], tf.int64).numpy())
    try:
        tf.linalg.cholesky(tf.constant([[1.0, 2.0], [2.0, 1.0]]))
    except tf.errors.InvalidArgumentError as error:
        tell("error", type(error).__name__)
