"""drawing, filters, JPEG, PNG, WebP, TIFF, GIF, text, colour profiles"""

import io

from PIL import Image, ImageCms, ImageDraw, ImageFilter, ImageFont, ImageOps, UnidentifiedImageError


def work(tell):
    image = Image.radial_gradient("L").resize((200, 150)).convert("RGB")
    draw = ImageDraw.Draw(image)
    draw.ellipse((20, 20, 120, 90), fill=(200, 30, 30), outline="blue", width=3)
    draw.text((10, 100), "Größe 3", fill="white", font=ImageFont.load_default(24))
    tell("drawn", image.tobytes())
    tell("filter", image.filter(ImageFilter.GaussianBlur(3)).rotate(17, Image.Resampling.BICUBIC).tobytes())
    for kind in ("JPEG", "PNG", "WEBP", "TIFF", "GIF"):
        file = io.BytesIO()
        image.save(file, kind)
        tell(kind, file.getvalue())
        tell(f"{kind} read", Image.open(io.BytesIO(file.getvalue())).convert("RGB").tobytes())
    tell("quantize", image.quantize(16).getpalette())
    tell("equalize", ImageOps.equalize(image).histogram())
    profile = ImageCms.createProfile("LAB")
    transform = ImageCms.buildTransform(ImageCms.createProfile("sRGB"), profile, "RGB", "LAB")
    tell("lab", ImageCms.applyTransform(image, transform).tobytes())
    try:
        Image.open(io.BytesIO(b"no image"))
    except UnidentifiedImageError as error:
        tell("error", type(error).__name__)
