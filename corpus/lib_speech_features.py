import tensorflow as tf

from lib_speech_clips import RATE

MEL = tf.signal.linear_to_mel_weight_matrix(40, 257, RATE, 60.0, 3800.0)


def log_mel(path, label):
    audio, _ = tf.audio.decode_wav(tf.io.read_file(path), 1, RATE)
    frames = tf.signal.stft(audio[:, 0], 400, 80, 512)
    mel = tf.tensordot(tf.abs(frames), MEL, 1)
    mel.set_shape((96, 40))
    return tf.math.log(mel + 1e-5)[..., None], label
