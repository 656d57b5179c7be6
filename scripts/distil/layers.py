"""Decoder layers: which ones, their names, and the files of a checkpoint. PyTorch only to read and write these."""
import json, pathlib, shutil

from distil.data import fail


def layers_key(config):
    """The key of config.json that has the number of decoder layers."""
    if "decoder_layers" in config:
        return "decoder_layers"
    if "num_decoder_layers" in config or config.get("model_type") in ("t5", "mt5", "umt5"):
        return "num_decoder_layers"
    fail("the teacher's config.json has neither decoder_layers nor num_decoder_layers")


def spread_layers(wanted, there):
    """Which of the teacher's layers the draft's begin as: the first one, the last one, and others evenly spread between."""
    return [round(i * (there - 1) / max(1, wanted - 1)) for i in range(wanted)]


def chosen_layers(text, there):
    """`--layers` as numbers of the teacher's: how many, or which, with commas."""
    try:
        numbers = [int(n) for n in text.split(",")]
    except ValueError:
        fail(f"--layers {text}: a number, or some with commas")
    if "," not in text:
        if not 1 <= numbers[0] <= there:
            fail(f"--layers {text}: the teacher has {there}")
        return spread_layers(numbers[0], there)
    if not all(0 <= n < there for n in numbers) or len(set(numbers)) < len(numbers):
        fail(f"--layers {text}: the teacher's are 0 to {there - 1}, each at most once")
    return numbers


def read_tensors(folder):
    """name -> tensor, as in the files of the checkpoint, types and all."""
    import torch
    from safetensors.torch import load_file

    tensors = {}
    for file in sorted(folder.glob("model*.safetensors")):
        tensors.update(load_file(file))
    if not tensors:
        for file in sorted(folder.glob("pytorch_model*.bin")):
            loaded = torch.load(file, map_location="cpu", weights_only=True)
            tensors.update({name: tensor.clone() for name, tensor in loaded.items()})  # tied ones share memory
    if not tensors:
        fail(f"{folder} has neither model*.safetensors nor pytorch_model*.bin")
    return tensors


def plain(name):
    return name.removeprefix("model.")


def layer_of(name):
    """(before, number, behind) of the name of a decoder layer's tensor; None: another's."""
    for kind in ("decoder.layers.", "decoder.block."):
        before, found, behind = name.partition(kind)
        number, dot, behind = behind.partition(".")
        if found and dot and number.isdigit():
            return before + kind, int(number), behind
    return None


def draft_tensors(teacher, trained):
    """What the draft's file has: `teacher` is what the teacher's has, `trained` the parameters that were."""
    learnt = {plain(name): value for name, value in trained.items()}
    out, kind, before = {}, None, None
    for name, tensor in teacher.items():
        if layer_of(name):
            before, kind = layer_of(name)[0], tensor.dtype
        elif plain(name) in learnt:
            out[name] = learnt.pop(plain(name)).to(tensor.dtype)
        else:
            out[name] = tensor
    for name, value in learnt.items():
        if not layer_of(name):
            fail(f"{name} was trained, but the teacher's files have none")
        _, number, behind = layer_of(name)
        out[f"{before}{number}.{behind}"] = value.to(kind)
    return {name: tensor.contiguous() for name, tensor in out.items()}


def save(args, trained, layers):
    from safetensors.torch import save_file

    teacher, out = pathlib.Path(args.teacher), pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    for file in teacher.iterdir():
        tokens = file.suffix in (".json", ".txt", ".model", ".spm", ".jinja") and not file.name.endswith(".index.json")
        if file.is_file() and tokens:
            shutil.copyfile(file, out / file.name)
    config = json.loads((teacher / "config.json").read_text(encoding="utf-8"))
    config[layers_key(config)] = len(layers)
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    weights = out / "model.safetensors"
    save_file(draft_tensors(read_tensors(teacher), trained), weights, metadata={"format": "pt"})
    weights.chmod((out / "config.json").stat().st_mode)  # a server of another user reads it too
