"""detection of five encodings"""

from charset_normalizer import from_bytes, md

TEXTS = {
    "utf_8": "Дүйнө, дүнья, мир, świat, κόσμος. " * 20,
    "cp1251": "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему. " * 6,
    "latin_1": "Œuvre déjà vue à l'été, garçon, forêt, où naïveté côtoie l'âme. ".replace("Œ", "o") * 10,
    "shift_jis": "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。" * 6,
    "big5": "天地玄黃宇宙洪荒日月盈昃辰宿列張寒來暑往秋收冬藏。" * 6,
}


def work(tell):
    tell("compiled", md.__file__.endswith(".so"))
    for encoding, text in TEXTS.items():
        best = from_bytes(text.encode(encoding)).best()
        tell(encoding, [best.encoding, str(best), best.alphabets, best.chaos])
