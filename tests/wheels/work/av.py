"""video and sound encoded and decoded by FFmpeg's libraries, a filter graph, an error"""

import io

import av
import numpy as np


def work(tell):
    file = io.BytesIO()
    with av.open(file, "w", format="matroska") as container:
        stream = container.add_stream("mpeg4", rate=24, options={"threads": "1"})
        stream.width, stream.height, stream.pix_fmt = 160, 120, "yuv420p"
        for i in range(24):
            picture = np.add.outer(np.arange(120), np.arange(160) + i * 5).astype(np.uint8)
            frame = av.VideoFrame.from_ndarray(np.dstack([picture] * 3), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with av.open(io.BytesIO(file.getvalue())) as container:
        tell("streams", [[stream.type, stream.codec_context.name] for stream in container.streams])
        frames = [frame.to_ndarray(format="gray") for frame in container.decode(video=0)]
        tell("frames", [len(frames), frames[0], frames[-1]])
    graph = av.filter.Graph()
    source = graph.add_buffer(width=160, height=120, format=av.VideoFormat("gray"), time_base="1/24")
    flip, sink = graph.add("hflip"), graph.add("buffersink")
    source.link_to(flip)
    flip.link_to(sink)
    graph.configure()
    graph.push(av.VideoFrame.from_ndarray(frames[3], format="gray"))
    tell("flipped", graph.pull().to_ndarray())
    resampler = av.AudioResampler(format="s16", layout="mono", rate=8000)
    sound = av.AudioFrame.from_ndarray((np.sin(np.arange(4096) / 20) * 20_000).astype(np.int16)[None], "s16", "mono")
    sound.sample_rate = 16_000
    tell("sound", [frame.to_ndarray() for frame in resampler.resample(sound)])
    try:
        av.open(io.BytesIO(b"no video"))
    except av.FFmpegError as error:
        tell("error", type(error).__name__)
