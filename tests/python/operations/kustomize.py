"""As much of Kustomize as packaging/kubernetes uses: resources, components, patches, images, namespace.

Whatever it does not know is an error. Lists are merged by the keys that Kubernetes gives them; others are replaced.
"""
import copy
import pathlib

import yaml

# Of the fields of a pod and of a service whose lists are merged.
MERGE_KEYS = {"containers": "name", "initContainers": "name", "volumes": "name", "env": "name", "volumeMounts": "mountPath",
              "ports": "containerPort"}
KNOWN = {"apiVersion", "kind", "resources", "components", "patches", "images", "namespace"}
KINDS = {"Kustomization": "kustomize.config.k8s.io/v1beta1", "Component": "kustomize.config.k8s.io/v1alpha1"}
CLUSTER_WIDE = {"Namespace", "ClusterRole", "ClusterRoleBinding"}


def merge(old, new):
    """A strategic merge: null removes a field."""
    out = copy.deepcopy(old)
    for name, value in new.items():
        if value is None:
            out.pop(name, None)
        elif isinstance(value, dict) and isinstance(out.get(name), dict):
            out[name] = merge(out[name], value)
        elif isinstance(value, list) and name in MERGE_KEYS and isinstance(out.get(name), list):
            key = MERGE_KEYS[name]
            names = [entry[key] for entry in value]
            rest = [entry for entry in out[name] if entry[key] not in names]
            old_ones = {entry[key]: entry for entry in out[name]}
            out[name] = [merge(old_ones.get(entry[key], {}), entry) for entry in value] + rest
        else:
            out[name] = without_nulls(value)
    return out


def without_nulls(value):
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else copy.deepcopy(value)


def apply_operation(resource, operation):
    """RFC 6902: `replace` and `remove` of what is there."""
    *parents, last = operation["path"].strip("/").split("/")
    at = resource
    for part in parents:
        at = at[int(part)] if isinstance(at, list) else at[part]
    last = int(last) if isinstance(at, list) else last
    at[last]  # raises where there is nothing
    if operation["op"] == "remove":
        del at[last]
    elif operation["op"] == "replace":
        at[last] = operation["value"]
    else:
        raise ValueError(f"no such operation here: {operation['op']}")


def identity(resource):
    return resource["apiVersion"], resource["kind"], resource["metadata"]["name"]


def patch(resources, entry, folder):
    if set(entry) - {"path", "patch", "target"}:
        raise ValueError(f"unknown fields of a patch: {entry}")
    text = entry["patch"] if "patch" in entry else (folder / entry["path"]).read_text()
    content = yaml.safe_load(text)
    if isinstance(content, list):
        targets = [r for r in resources if (r["kind"], r["metadata"]["name"]) == (entry["target"]["kind"], entry["target"]["name"])]
    else:
        targets = [r for r in resources if identity(r) == identity(content)]
    if len(targets) != 1:
        raise ValueError(f"{folder}: a patch has {len(targets)} targets: {entry}")
    if isinstance(content, list):
        for operation in content:
            apply_operation(targets[0], operation)
        return resources
    return [merge(r, content) if r is targets[0] else r for r in resources]


def set_images(resource, images):
    pod = resource.get("spec", {}).get("template", {}).get("spec", {}) if isinstance(resource.get("spec"), dict) else {}
    for container in pod.get("containers", []) + pod.get("initContainers", []):
        for image in images:
            if container["image"].split(":")[0] == image["name"]:
                container["image"] = f"{image.get('newName', image['name'])}:{image['newTag']}"


def build(folder, resources=()):
    """The resources of a kustomization; of a component, what it makes of `resources`."""
    folder = pathlib.Path(folder)
    plan = yaml.safe_load((folder / "kustomization.yaml").read_text())
    if set(plan) - KNOWN or KINDS.get(plan["kind"]) != plan["apiVersion"]:
        raise ValueError(f"{folder}: not understood: {plan}")
    if plan["kind"] == "Component" and not resources:
        raise ValueError(f"{folder}: a component is no kustomization of its own")
    out = list(resources)
    for name in plan.get("resources", []):
        path = folder / name
        out += build(path) if path.is_dir() else list(yaml.safe_load_all(path.read_text()))
    for name in plan.get("components", []):
        out = build(folder / name, out)
    for entry in plan.get("patches", []):
        out = patch(out, entry, folder)
    for resource in out:
        set_images(resource, plan.get("images", []))
        if "namespace" in plan and resource["kind"] not in CLUSTER_WIDE:
            resource["metadata"]["namespace"] = plan["namespace"]
    if len({identity(r) for r in out}) != len(out):
        raise ValueError(f"{folder}: a resource comes twice")
    return out
