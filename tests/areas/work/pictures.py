"""timm's ResNet, ViT and EfficientNet, feature extraction and a training step; torchvision's transforms and detection"""

from common import parameters, rand, randn, seeded

import timm
import timm.loss
import timm.optim
import torch
import torchvision
from torchvision.transforms import v2


def timm_models():
    outputs = []
    options = {"vit_tiny_patch16_224": {"img_size": 64}}
    for name, seed in (("resnet10t", 1), ("vit_tiny_patch16_224", 2), ("efficientnet_b0", 3)):
        model = timm.create_model(name, pretrained=False, num_classes=10, **options.get(name, {}))
        with torch.inference_mode():
            outputs.append(seeded(model, seed).eval()(randn(1, 3, 64, 64, seed=4)).clone())
    return outputs


def timm_features():
    model = seeded(timm.create_model("resnet10t", pretrained=False, features_only=True), 5).eval()
    with torch.inference_mode():
        return [feature.mean().clone() for feature in model(randn(1, 3, 64, 64, seed=6))]


def timm_training():
    torch.manual_seed(7)
    model = seeded(timm.create_model("resnet10t", pretrained=False, num_classes=4), 8).train()
    optimizer = timm.optim.create_optimizer_v2(model, opt="lamb", lr=0.01)
    loss = timm.loss.LabelSmoothingCrossEntropy(0.1)(model(randn(2, 3, 32, 32, seed=9)), torch.tensor([0, 3]))
    loss.backward()
    optimizer.step()
    return [loss.detach(), parameters(model)[-2:]]


def transforms():
    torch.manual_seed(10)
    pipeline = v2.Compose([
        v2.RandomResizedCrop(24, antialias=True),
        v2.RandomHorizontalFlip(),
        v2.ColorJitter(0.3, 0.3, 0.3),
        v2.GaussianBlur(3),
        v2.ToDtype(torch.float32, scale=True),
    ])
    image = (rand(3, 40, 40, seed=11) * 255).to(torch.uint8)
    return [pipeline(image), torchvision.io.decode_png(torchvision.io.encode_png(image))]


def detection():
    torch.manual_seed(12)
    model = torchvision.models.detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=3)
    with torch.inference_mode():
        output = seeded(model, 13).eval()([rand(3, 64, 64, seed=14)])[0]
    return [output[name][:5].clone() for name in ("boxes", "scores", "labels")]


def work(tell):
    tell("timm models", timm_models())
    tell("timm features", timm_features())
    tell("timm training", timm_training())
    tell("torchvision transforms", transforms())
    tell("torchvision detection", detection())
