"""A small archive of Universal Dependencies 2.7: the folders and files of the real one, with few
sentences in each.
"""

ALL, TEST = ("train", "dev", "test"), ("test",)
HDT = ("train-a-1", "train-a-2", "train-b-1", "train-b-2", "dev", "test")
# Folder -> the code in the names of its files, and their splits.
TREEBANKS: dict[str, tuple[str, tuple[str, ...]]] = {
    "UD_Ancient_Greek-PROIEL": ("grc_proiel", ALL),
    "UD_Arabic-NYUAD": ("ar_nyuad", ALL),
    "UD_Arabic-PADT": ("ar_padt", ALL),
    "UD_Arabic-PUD": ("ar_pud", TEST),
    "UD_Chinese-CFL": ("zh_cfl", TEST),
    "UD_Chinese-GSD": ("zh_gsd", ALL),
    "UD_Chinese-GSDSimp": ("zh_gsdsimp", ALL),
    "UD_Chinese-PUD": ("zh_pud", TEST),
    "UD_Classical_Chinese-Kyoto": ("lzh_kyoto", ALL),
    "UD_Dutch-Alpino": ("nl_alpino", ALL),
    "UD_Dutch-LassySmall": ("nl_lassysmall", ALL),
    "UD_English-EWT": ("en_ewt", ALL),
    "UD_English-GUM": ("en_gum", ALL),
    "UD_English-PUD": ("en_pud", TEST),
    "UD_French-GSD": ("fr_gsd", ALL),
    "UD_French-Sequoia": ("fr_sequoia", ALL),
    "UD_German-GSD": ("de_gsd", ALL),
    "UD_German-HDT": ("de_hdt", HDT),
    "UD_German-PUD": ("de_pud", TEST),
    "UD_Greek-GDT": ("el_gdt", ALL),
    "UD_Hebrew-HTB": ("he_htb", ALL),
    "UD_Hindi_English-HIENCS": ("qhe_hiencs", ALL),
    "UD_Japanese-GSD": ("ja_gsd", ALL),
    "UD_Japanese-Modern": ("ja_modern", TEST),
    "UD_Persian-PerDT": ("fa_perdt", ALL),
    "UD_Persian-Seraji": ("fa_seraji", ALL),
    "UD_Swiss_German-UZH": ("gsw_uzh", TEST),
    "UD_Urdu-UDTB": ("ur_udtb", ALL),
}
# The papers' treebanks, by language.
OWN = {
    "en": "UD_English-EWT",
    "de": "UD_German-GSD",
    "nl": "UD_Dutch-Alpino",
    "ar": "UD_Arabic-PADT",
    "he": "UD_Hebrew-HTB",
    "zh": "UD_Chinese-GSD",
    "ja": "UD_Japanese-GSD",
    "ur": "UD_Urdu-UDTB",
    "fa": "UD_Persian-Seraji",
}


def archive(folder, sizes=None):
    """Write the archive; each word is the name of its file.

    sizes: sentences of a file, by its name; others have two.
    """
    root = folder / "ud-treebanks-v2.7"
    for treebank, (code, splits) in TREEBANKS.items():
        (root / treebank).mkdir(parents=True)
        (root / treebank / "README.md").write_text("# Changelog\n\n* 2020-11-15 v2.7\n")
        (root / treebank / "LICENSE.txt").write_text("Creative Commons\n")
        for split in splits:
            name = f"{code}-ud-{split}"
            sentence = f"# text = {name}\n1\t{name}\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
            file = root / treebank / f"{name}.conllu"
            file.write_text(sentence * (sizes or {}).get(name, 2))
            file.with_suffix(".txt").write_text(f"{name} is plain text.\n")
    return root
