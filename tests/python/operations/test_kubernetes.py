"""packaging/kubernetes: what its kustomizations make is valid for Kubernetes, and fits together.

Kubernetes' own schemas of several releases come with the package kubernetes-validate. Kustomize is stood in for by
kustomize.py; where kubectl is installed, the two are compared. Not checked: the schema of ServiceMonitor (Prometheus Operator's),
and what only a cluster knows (admission, quotas, whether there are such classes and secrets).
"""
import json
import pathlib
import re
import shutil
import subprocess

import kubernetes_validate
import pytest
import yaml

import kustomize

KUBERNETES = pathlib.Path(__file__).resolve().parents[3] / "packaging" / "kubernetes"
KUSTOMIZATIONS = [".", "overlays/hub", "overlays/production"]
COMPONENTS = sorted(path.parent.name for path in KUBERNETES.glob("components/*/kustomization.yaml"))
VERSIONS = ["1.31", "1.34", "1.37"]
NO_SCHEMA = {("monitoring.coreos.com/v1", "ServiceMonitor")}


def made_by(name):
    return kustomize.build(KUBERNETES / name)


def with_component(name):
    return kustomize.build(KUBERNETES / "components" / name, made_by("."))


def validate(resource, version):
    if (resource["apiVersion"], resource["kind"]) not in NO_SCHEMA:
        kubernetes_validate.validate(resource, version, strict=True)


def check(resources):
    """What the schemas do not say: names that refer to each other."""
    by_kind = {r["kind"]: r for r in resources}
    deployment, service = by_kind["Deployment"], by_kind["Service"]
    pod, labels = deployment["spec"]["template"]["spec"], deployment["spec"]["template"]["metadata"]["labels"]
    for selector in (deployment["spec"]["selector"]["matchLabels"], service["spec"]["selector"],
                     by_kind["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]):
        assert selector.items() <= labels.items()
    (server,) = pod["containers"]
    ports = {port["name"] for port in server["ports"]}
    assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert server[probe]["httpGet"]["port"] in ports
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for volume in volumes.values():
        assert len(volume) == 2, f"{volume} is one kind of volume"
    for container in pod["containers"] + pod.get("initContainers", []):
        assert {mount["name"] for mount in container["volumeMounts"]} <= set(volumes)
        assert container["securityContext"]["readOnlyRootFilesystem"] and pod["securityContext"]["runAsNonRoot"]
        # /tmp, and where the hub's cache is, are the only places that are written to.
        writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
        assert writable <= {"/tmp", "/cache/huggingface"}
        variables = {v["name"] for v in container.get("env", [])}
        for used in re.findall(r"\$\((\w+)\)", yaml.safe_dump(container)):
            maps = [r["data"] for r in resources if r["kind"] == "ConfigMap"]
            assert used in variables or any(used in data for data in maps), used
    secrets = [source["secretRef"]["name"] for source in server["envFrom"] if "secretRef" in source]
    assert "tandem" in secrets, "the server has its keys"
    for source in server["envFrom"] + [s for c in pod.get("initContainers", []) for s in c["envFrom"]]:
        if "configMapRef" in source:
            assert by_kind["ConfigMap"]["metadata"]["name"] == source["configMapRef"]["name"]
    if "HorizontalPodAutoscaler" in by_kind:
        target = by_kind["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
        assert (target["kind"], target["name"]) == ("Deployment", deployment["metadata"]["name"])
        assert "replicas" not in deployment["spec"], "the autoscaler says how many"
    if "Ingress" in by_kind:
        ingress = by_kind["Ingress"]["spec"]
        (rule,) = ingress["rules"]
        backend = rule["http"]["paths"][0]["backend"]["service"]
        assert backend["name"] == service["metadata"]["name"]
        assert backend["port"]["name"] in {port["name"] for port in service["spec"]["ports"]}
        assert ingress["tls"][0]["hosts"] == [rule["host"]]
    if "ServiceMonitor" in by_kind:
        monitor = by_kind["ServiceMonitor"]["spec"]
        assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert monitor["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", KUSTOMIZATIONS)
def test_kustomizations_are_valid(name, version):
    resources = made_by(name)
    assert len(resources) >= 3
    for resource in resources:
        validate(resource, version)
    check(resources)


@pytest.mark.parametrize("name", COMPONENTS)
def test_each_component_fits_the_base_alone(name):
    resources = with_component(name)
    for resource in resources:
        validate(resource, VERSIONS[-1])
    check(resources)
    assert resources != made_by("."), "it changes something"


def test_the_schemas_find_mistakes():
    for change in ({"spec": {"template": {"spec": {"containerz": []}}}}, {"spec": {"replicas": "two"}}):
        (deployment,) = [r for r in made_by(".") if r["kind"] == "Deployment"]
        with pytest.raises(kubernetes_validate.ValidationError):
            validate(kustomize.merge(deployment, change), VERSIONS[-1])


def test_the_overlays_say_what_they_are_for():
    (hub,) = [r for r in made_by("overlays/hub") if r["kind"] == "Deployment"]
    (fetch,) = hub["spec"]["template"]["spec"]["initContainers"]
    (server,) = hub["spec"]["template"]["spec"]["containers"]
    assert fetch["command"] == ["/usr/bin/tandem", "inspect", "$(TANDEM_MODEL)"]
    assert fetch["image"] == server["image"]
    assert not [a for a in server["args"] if "bart" in a], "the ConfigMap names the model, and nothing else does"
    assert {"name": "HF_HUB_OFFLINE", "value": "1"} in server["env"]
    production = {r["kind"]: r for r in made_by("overlays/production")}
    assert {"Ingress", "HorizontalPodAutoscaler", "ServiceMonitor", "ConfigMap"} <= set(production)
    assert {r["metadata"]["namespace"] for r in production.values()} == {"inference"}
    pod = production["Deployment"]["spec"]["template"]["spec"]
    assert {c["image"] for c in pod["containers"] + pod["initContainers"]} == {"registry.example.org/tandem:0.1.0"}


@pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl here")
@pytest.mark.parametrize("name", KUSTOMIZATIONS)
def test_kubectl_makes_the_same(name):
    text = subprocess.run(["kubectl", "kustomize", KUBERNETES / name], check=True, capture_output=True, text=True).stdout

    def in_order(resources):
        return sorted((ordered(r) for r in resources), key=kustomize.identity)

    def text_of(value):
        return json.dumps(value, sort_keys=True)

    def ordered(value):  # Kustomize sorts lists that are merged by their keys, or leaves them as they were
        if isinstance(value, dict):
            return {name: sorted(map(ordered, inner), key=text_of) if name in kustomize.MERGE_KEYS and isinstance(inner, list)
                    else ordered(inner) for name, inner in value.items()}
        return [ordered(inner) for inner in value] if isinstance(value, list) else value

    assert in_order(yaml.safe_load_all(text)) == in_order(made_by(name))
