"""torchaudio's spectrograms, resampling and filters"""

from common import randn

import torchaudio


def sound():
    wave = randn(1, 4000, seed=15)
    mel = torchaudio.transforms.MelSpectrogram(8000, n_fft=256, n_mels=16)(wave)
    resampled = torchaudio.functional.resample(wave, 8000, 5000)
    return [mel, resampled, torchaudio.transforms.AmplitudeToDB()(mel)]


def filters():
    wave = randn(1, 800, seed=16)
    filtered = torchaudio.functional.lowpass_biquad(wave, 8000, 1000.0)
    return [filtered, torchaudio.transforms.MFCC(8000, n_mfcc=8, melkwargs={"n_fft": 256, "n_mels": 16})(wave)]


def work(tell):
    tell("torchaudio spectrograms", sound())
    tell("torchaudio filters", filters())
