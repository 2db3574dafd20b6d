"""The fifteen models of figure 4 of "Using Python for Model Inference in Deep Learning" (DeVito et al., 2021).

Where PyPI has a public implementation it is that, as it is installed, in its default configuration; otherwise the network is
written from its own paper, in `networks`. Weights are random, from a fixed seed.
"""

import dataclasses
from collections.abc import Callable

import torch


@dataclasses.dataclass(frozen=True)
class Entry:
    """One model, and how to package it. Modules that no pattern names are denied."""

    name: str
    title: str
    # Where the implementation comes from, as the table says it.
    source: str
    # Makes the model, and the arguments of one call.
    build: Callable
    # Patterns of modules that travel in the package.
    intern: tuple = ()
    # Patterns of modules that a call does not need, replaced by stand-ins that raise on use.
    mock: tuple = ()
    # Patterns of modules that the machine must have, beside torch.
    extern: tuple = ()
    # Module -> pairs of source text and what stands in the package instead.
    patches: dict = dataclasses.field(default_factory=dict)
    # Module -> its whole text in the package.
    replaced: dict = dataclasses.field(default_factory=dict)
    # Module -> the shared library in its folder with the operators that it registers.
    libraries: dict = dataclasses.field(default_factory=dict)
    # Draws from torch's generator during the call, by its paper's design.
    draws: bool = False


def _images(*shape):
    return torch.rand(*shape)


def super_slomo():
    from networks.super_slomo import SuperSloMo

    return SuperSloMo(), (_images(1, 3, 192, 192), _images(1, 3, 192, 192), 0.5)


def parsing():
    from networks.parsing import VOCABULARY, Parser

    return Parser(), (torch.randint(VOCABULARY, (2, 20)),)


def star_gan():
    from networks.star_gan import ATTRIBUTES, SIZE, StarGAN

    return StarGAN(), (_images(2, 3, SIZE, SIZE), torch.eye(ATTRIBUTES)[:2])


def demucs():
    from demucs.htdemucs import HTDemucs

    # A second of stereo. Longer pieces are cut into segments by the caller.
    model = HTDemucs(sources=["drums", "bass", "other", "vocals"], use_train_segment=False)
    return model, (torch.randn(1, 2, 44_100),)


def yolo_v3():
    from networks.yolo import YOLOv3

    return YOLOv3(), (_images(1, 3, 416, 416),)


def bert():
    from transformers import BertConfig, BertModel

    tokens = torch.randint(30_522, (2, 64))
    return BertModel(BertConfig()), (tokens, torch.ones_like(tokens))


def learning_to_paint():
    from networks.learning_to_paint import SIZE, Painter

    return Painter(), (_images(1, 3, SIZE, SIZE),)


def mobilenet_v3():
    from torchvision.models import mobilenet_v3_large

    return mobilenet_v3_large(), (_images(1, 3, 224, 224),)


def struct():
    from networks.grammar import VOCABULARY, NeuralGrammar

    return NeuralGrammar(), (torch.randint(VOCABULARY, (2, 12)),)


def dlrm():
    from networks.dlrm import CONTINUOUS, DLRM, ROWS, TABLES

    batch, bag = 128, 4
    indices = torch.randint(ROWS, (TABLES, batch * bag))
    offsets = torch.arange(0, batch * bag, bag).expand(TABLES, -1).contiguous()
    return DLRM(), (torch.rand(batch, CONTINUOUS), indices, offsets)


def background_matting():
    from networks.background_matting import BackgroundMatting

    size = (256, 256)
    return BackgroundMatting(), tuple(_images(1, channels, *size) for channels in (3, 3, 1, 4))


def moco():
    from networks.moco import WIDTH, MoCo
    from torchvision.models import resnet50

    return MoCo(lambda: resnet50(num_classes=WIDTH)), (_images(2, 3, 224, 224), _images(2, 3, 224, 224))


def mask_rcnn():
    from torchvision.models.detection import maskrcnn_resnet50_fpn

    # Random weights are sure of nothing: all boxes are kept, so that both kernels, nms and roi_align, have work.
    model = maskrcnn_resnet50_fpn(weights=None, weights_backbone=None, box_score_thresh=0.0, box_detections_per_img=20)
    return model, ([_images(3, 240, 320)],)


def cycle_gan():
    from networks.cycle_gan import CycleGAN

    return CycleGAN(), (_images(1, 3, 256, 256),)


def tacotron2():
    from torchaudio.models import Tacotron2

    tokens, mel = torch.randint(148, (2, 24)), torch.randn(2, 80, 60)
    return Tacotron2(), (tokens, torch.tensor([24, 18]), mel, torch.tensor([60, 48]))


WRITTEN = "written from its paper"

UNDOCUMENTED = """def auto_docstring(obj=None, **options):
    return obj if obj is not None else lambda obj: obj
def __getattr__(name):
    return None
"""

MODELS = (
    Entry("super_slomo", "Super SloMo", WRITTEN, super_slomo, intern=("networks.**",)),
    Entry(
        "parsing",
        "Attention is All You Need, constituency parsing",
        WRITTEN,
        parsing,
        intern=("networks.**",),
    ),
    Entry("star_gan", "StarGAN", WRITTEN, star_gan, intern=("networks.**",)),
    Entry("demucs", "Demucs", "demucs 4.1.0, HTDemucs", demucs, intern=("demucs.**", "einops.**", "julius.**")),
    Entry("yolo_v3", "YOLOv3", WRITTEN, yolo_v3, intern=("networks.**",)),
    Entry(
        "bert",
        "BERT",
        "transformers 5.20.2, BERT base",
        bert,
        # The modules that a call needs. All others are mocked, as `hydrozoa package build` proposes for an object like this one:
        # no interpreter loads mocked modules, or modules that only these import.
        intern=(
            "transformers",
            "transformers._typing",
            "transformers.activations",
            "transformers.cache_utils",
            "transformers.configuration_utils",
            "transformers.distributed.mixin",
            "transformers.distributed.utils",
            "transformers.generation.continuous_batching",
            "transformers.initialization",
            "transformers.integrations",
            "transformers.integrations.heterogeneity",
            "transformers.integrations.heterogeneity.configuration_utils",
            "transformers.integrations.hub_kernels",
            "transformers.integrations.peft",
            "transformers.integrations.sdpa_attention",
            "transformers.masking_utils",
            "transformers.modeling_layers",
            "transformers.modeling_outputs",
            "transformers.modeling_rope_utils",
            "transformers.modeling_utils",
            "transformers.models",
            "transformers.models.bert",
            "transformers.models.bert.configuration_bert",
            "transformers.models.bert.modeling_bert",
            "transformers.pytorch_utils",
            "transformers.utils",
            "transformers.utils.auto_docstring",
            "transformers.utils.doc",
            "transformers.utils.generic",
            "transformers.utils.hub",
            "transformers.utils.import_utils",
            "transformers.utils.logging",
            "transformers.utils.output_capturing",
            "huggingface_hub.dataclasses",
            "packaging.**",
        ),
        mock=(
            "transformers.**",
            "huggingface_hub.**",
            "safetensors.**",
            "tqdm.**",
            "tokenizers.**",
            "jinja2.**",
            "httpx2",
            "regex",
            "yaml",
            "PIL.**",
        ),
        patches={
            "transformers.models.bert.modeling_bert": [
                ("class BertLMHeadModel(BertPreTrainedModel, GenerationMixin):", "class BertLMHeadModel(BertPreTrainedModel):"),
                ("from ...processing_utils import Unpack", "from typing_extensions import Unpack"),
            ],
            "transformers.integrations.sdpa_attention": [
                ("cache: PagedAttentionCache | None = None", "cache=None"),
                ("if isinstance(cache, PagedAttentionCache):", "if cache is not None:"),
            ],
            "transformers.modeling_utils": [
                ("    @torch.compiler.allow_in_graph\n", ""),
                ("generation_config_class: type[GenerationConfig] = GenerationConfig", "generation_config_class = None"),
                ("import collections\nimport copy", "from __future__ import annotations\nimport collections\nimport copy"),
            ],
            # torch._dynamo is imported for a branch that BERT never takes, and for users who compile the model. It is 63 MB of
            # the 80 MB that the package would cost each interpreter; no mock can replace a part of an external package.
            "transformers.masking_utils": [
                ("from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex\n", ""),
                (
                    "        with TransformGetItemToIndex():\n",
                    "        from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex\n        with TransformGetItemToIndex():\n",
                ),
            ],
            "transformers.modeling_layers": [
                ("from .processing_utils import Unpack", "from typing_extensions import Unpack"),
            ],
            "transformers.utils.logging": [("not hf_hub_utils.are_progress_bars_disabled()", "False")],
            "transformers.utils.hub": [
                ("_hf_api: HfApi | None = None", "_hf_api = None"),
                ('os.path.join(constants.HF_HOME, "modules")', '"modules"'),
            ],
        },
        # Its own `__init__` lists the folder that it lies in, to import a hundred models lazily.
        # The decorators that write documentation read the sources on disk.
        replaced={"transformers": '__version__ = "5.20.2"\n', "transformers.utils.auto_docstring": UNDOCUMENTED},
    ),
    Entry("learning_to_paint", "Learning to Paint", WRITTEN, learning_to_paint, intern=("networks.**",)),
    Entry(
        "mobilenet_v3",
        "MobileNet v3",
        "torchvision 0.26.0, large",
        mobilenet_v3,
        intern=("torchvision.**",),
        extern=("PIL.**",),
    ),
    Entry("torch_struct", "torch-struct", "torch-struct 0.5, neural PCFG", struct, intern=("networks.**", "torch_struct.**")),
    Entry("dlrm", "DLRM", WRITTEN, dlrm, intern=("networks.**",)),
    Entry("background_matting", "Background Matting", WRITTEN, background_matting, intern=("networks.**",)),
    Entry("moco", "MoCo", f"{WRITTEN}, on torchvision's ResNet-50", moco, intern=("networks.**", "torchvision.**"), extern=("PIL.**",)),
    Entry(
        "mask_rcnn",
        "Mask R-CNN, its kernels in the package",
        "torchvision 0.26.0, ResNet-50 FPN",
        mask_rcnn,
        intern=("torchvision.**",),
        extern=("PIL.**",),
        libraries={"torchvision": "_C.so"},
    ),
    Entry("cycle_gan", "CycleGAN", WRITTEN, cycle_gan, intern=("networks.**",)),
    Entry(
        "tacotron2",
        "Tacotron 2",
        "torchaudio 2.11.0",
        tacotron2,
        intern=("torchaudio.**",),
        draws=True,
    ),
)


def made(entry):
    """The model, and the arguments of a call: the same each time."""
    torch.manual_seed(7)
    model, example = entry.build()
    return model.eval().requires_grad_(False), example
