"""The files for a cluster in examples/cluster are what Ray's launcher, KubeRay and Docker take, and agree with each other."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from ray._private import ray_constants
from ray.autoscaler._private.util import prepare_config, validate_config
from typer.main import get_command

from runtime import Settings
from runtime.frontends.console import cli
from runtime.frontends.web.api.server import OPERATIONS
from runtime.frontends.web.serving import GRACE_S

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "cluster"


class _Resource(BaseModel):
    """A part of a Kubernetes resource, whose unknown fields the API server would refuse or, worse, drop."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel)


class Named(_Resource):
    name: str


class EnvFrom(_Resource):
    secret_ref: Named


class Variable(Named):
    value: str


class Needs(_Resource):
    requests: dict[str, str]
    limits: dict[str, str]


class Container(Named):
    image: str
    env_from: list[EnvFrom]
    env: list[Variable] = []
    resources: Needs


class Pod(_Resource):
    containers: list[Container]
    termination_grace_period_seconds: int = Field(default=30, gt=0)


class Template(_Resource):
    spec: Pod


class Group(_Resource):
    ray_start_params: dict[str, str]
    template: Template


class WorkerGroup(Group):
    group_name: str
    replicas: int = Field(ge=0)
    min_replicas: int = Field(ge=0)
    max_replicas: int = Field(ge=1)

    @model_validator(mode="after")
    def _is_within_bounds(self) -> WorkerGroup:
        assert self.min_replicas <= self.replicas <= self.max_replicas
        return self


class Auth(_Resource):
    mode: str = Field(pattern="^(token|disabled)$")


class AutoscalerOptions(_Resource):
    version: str = Field(pattern="^(v1|v2)$")
    idle_timeout_seconds: int


class Cluster(_Resource):
    ray_version: str
    auth_options: Auth
    enable_in_tree_autoscaling: bool
    autoscaler_options: AutoscalerOptions
    head_group_spec: Group
    worker_group_specs: list[WorkerGroup]


class RayCluster(_Resource):
    """`ray.io/v1` RayCluster, with the fields that ours has. Source: KubeRay's API reference."""

    api_version: str = Field(pattern="^ray.io/v1$")
    kind: str = Field(pattern="^RayCluster$")
    metadata: Named
    spec: Cluster


def test_the_launcher_takes_cluster_yaml() -> None:
    config = prepare_config(launched())
    validate_config(config)
    assert config["setup_commands"] == config["head_setup_commands"] == config["worker_setup_commands"] == []


def test_kuberay_yaml_is_a_ray_cluster() -> None:
    RayCluster.model_validate(manifest())


def test_nodes_have_longer_to_end_than_ray_waits_while_they_drain() -> None:
    pods = [group.template.spec for group in RayCluster.model_validate(manifest()).spec.worker_group_specs]
    # Older Rays do not wait.
    waits_s = getattr(ray_constants, "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S", 0)
    assert all(pod.termination_grace_period_seconds > waits_s for pod in pods)


def test_every_node_has_the_locked_ray() -> None:
    locked = re.search(r"^ray==([\d.]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert locked is not None
    assert manifest()["spec"]["rayVersion"] == locked[1]
    assert f"\nFROM rayproject/ray:{locked[1]}-py311\n" in (FOLDER / "Dockerfile").read_text()


def test_all_nodes_run_one_image() -> None:
    cluster = RayCluster.model_validate(manifest()).spec
    images = {
        container.image
        for group in (cluster.head_group_spec, *cluster.worker_group_specs)
        for container in group.template.spec.containers
    }
    images |= {container["image"] for container in containers_beside_the_cluster()}
    assert images == {launched()["docker"]["image"]}
    assert f"-t {images.pop()} ." in (FOLDER / "Dockerfile").read_text()


def test_the_image_is_made_of_files_that_are_there() -> None:
    taken = re.findall(r"^!(.+)$", (FOLDER / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert [name for name in taken if not (ROOT / name).exists()] == []


def test_what_the_core_actors_ask_for_is_on_the_nodes_that_are_meant_for_them() -> None:
    variables = {
        each["name"]: each["value"] for each in manifest()["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"]
    }
    asked = Settings(core_resources=json.loads(variables["RAYGROVE_CORE_RESOURCES"])).core_resources
    of_kuberay = [group["rayStartParams"].get("resources") for group in manifest()["spec"]["workerGroupSpecs"]]
    # Written for a shell, so quoted twice.
    assert [json.loads(json.loads(each)) for each in of_kuberay if each] == [{"core": 8}]
    assert launched()["available_node_types"]["core"]["resources"] == {"core": 8}
    assert asked == {"core": 1}


def test_settings_that_the_files_name_are_settings() -> None:
    files = [each for each in FOLDER.iterdir() if each.is_file()]
    named = {name.lower() for file in files for name in re.findall(r"RAYGROVE_(\w+)", file.read_text())}
    assert named
    assert named <= set(Settings.model_fields)


def test_what_runs_beside_the_cluster_joins_it_as_a_node_on_which_no_agent_lives() -> None:
    name = manifest()["metadata"]["name"]
    for container in containers_beside_the_cluster():
        [script] = container["args"]
        assert f"ray start --address={name}-head-svc:6379 --num-cpus=0 --memory=0" in script
        token = {"secretKeyRef": {"name": name, "key": "auth_token"}}
        assert {"name": "RAY_AUTH_TOKEN", "valueFrom": token} in container["env"]
        # The operator makes a secret of the cluster's name, so no secret that is made by hand may have it.
        assert {"secretRef": {"name": name}} not in container.get("envFrom", [])
    settings = manifest()["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"]
    ours = [each for each in settings if each["name"].startswith("RAYGROVE_")]
    assert len(ours) > 1
    assert [each for each in ours if each not in containers_beside_the_cluster()[0]["env"]] == []


def test_the_job_starts_the_app_that_the_servers_join() -> None:
    job, web = containers_beside_the_cluster()
    assert "python examples/cluster/desk.py start\n" in job["args"][0]
    assert resource("Job")["spec"]["template"]["spec"]["restartPolicy"] == "OnFailure"
    name, *arguments = serve_command(web)
    commands = get_command(cli.app).commands  # type: ignore[attr-defined]
    options = commands[name].make_context(name, arguments).params
    assert (options["paths"], options["join"]) == (["desk"], True)
    assert '\nAPP = "desk"\n' in (FOLDER / "desk.py").read_text()


def test_probes_traffic_and_tokens_fit_the_server() -> None:
    _, web = containers_beside_the_cluster()
    spec = resource("Deployment")["spec"]
    [port] = web["ports"]
    words = serve_command(web)
    assert words[words.index("--port") + 1] == str(port["containerPort"])
    host = words[words.index("--allowed-host") + 1]
    paths = {operation.path for operation in OPERATIONS}
    for probe, path in {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}.items():
        asked = web[probe]["httpGet"]
        assert asked == {"path": path, "port": port["name"], "httpHeaders": [{"name": "Host", "value": host}]}
        assert path in paths
    assert web["readinessProbe"]["timeoutSeconds"] > 2
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] > GRACE_S
    [mount], [volume] = web["volumeMounts"], spec["template"]["spec"]["volumes"]
    assert mount["name"] == volume["name"]
    assert Path(words[words.index("--tokens") + 1]).parent == Path(mount["mountPath"])
    service, ingress = resource("Service"), resource("Ingress")["spec"]
    assert service["spec"]["selector"] == spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    [rule] = ingress["rules"]
    [way] = rule["http"]["paths"]
    [way_in] = service["spec"]["ports"]
    assert way["backend"]["service"] == {"name": service["metadata"]["name"], "port": {"name": way_in["name"]}}
    assert way_in["targetPort"] == port["name"]
    assert rule["host"] == host
    assert ingress["tls"][0]["hosts"] == [host]


def launched() -> Any:
    return yaml.safe_load((FOLDER / "cluster.yaml").read_text())


def manifest() -> Any:
    return resource("RayCluster")


def resource(kind: str) -> Any:
    [found] = [each for each in yaml.safe_load_all((FOLDER / "kuberay.yaml").read_text()) if each["kind"] == kind]
    return found


def serve_command(container: Any) -> list[str]:
    """The words after `raygrove` of the line that starts the server."""
    lines = container["args"][0].replace("\\\n", " ").splitlines()
    [line] = [line for line in lines if line.startswith("raygrove serve ")]
    assert line.endswith(" &")
    return shlex.split(line)[1:-1]


def containers_beside_the_cluster() -> list[Any]:
    return [resource(kind)["spec"]["template"]["spec"]["containers"][0] for kind in ("Job", "Deployment")]
