"""`deadhead bench-task`: the score and the cost of one or two models on the data of a task."""

from . import _options as opt
from .bench import print_costs


def bench_task(
    model: opt.Model,
    against: opt.Against = None,
    lang: opt.Languages = None,
    task: opt.TaskName = None,
    split: opt.Split = "dev",
    data: opt.Data = None,
    source: opt.Corpus = None,
    max_examples: opt.MaxExamples = None,
    max_length: opt.Length = None,
    batch_sizes: opt.BatchSizes = "1,8",
    repeats: opt.Repeats = 10,
    seed: opt.Seed = 0,
    auto: opt.Auto = None,
    dtype: opt.Dtype = None,
    device: opt.Device = None,
    as_json: opt.AsJson = False,
) -> None:
    """Measure one or two models on the data of a task: score, tokens per second, memory.

    The score is that of all examples; the times are those of some random examples.

    Example:

        deadhead bench-task half --against ./SmolLM2-135M --task lm --data text.txt
    """
    known = opt.required_task(task)
    batches = opt.numbers_from(batch_sizes, "--batch-sizes")
    sets = opt.data_sets(known, lang, split, most=max_examples, seed=seed, root=data, source=source)
    from deadhead.saved.bench_task import bench_task as measure

    result = measure(
        [model] if against is None else [model, against],
        sets,
        batches=batches,
        repeats=repeats,
        max_length=max_length,
        seed=seed,
        auto=auto,
        dtype=dtype,
        device=device,
    )
    print_costs(result, as_json)
