"""The Kubernetes manifest: its schema, and that it agrees with ``headway serve``, the image and the systemd unit."""

from __future__ import annotations

from typing import Any

import pytest
from tests.deploy.deployed import CONTAINERFILE, DAEMONSET, UNIT, serve_options, unit_settings, unit_words

from headway.serving.addresses import parse_address
from headway.serving.site import HEALTH

yaml = pytest.importorskip("yaml", reason="needs PyYAML")

Document = dict[str, Any]


def documents() -> dict[str, Document]:
    """The objects of the manifest by kind."""
    found = list(yaml.safe_load_all(DAEMONSET.read_text()))
    assert len({one["kind"] for one in found}) == len(found)
    return {one["kind"]: one for one in found}


def pod() -> Document:
    spec: Document = documents()["DaemonSet"]["spec"]["template"]["spec"]
    return spec


def container() -> Document:
    (one,) = pod()["containers"]
    return dict(one)


@pytest.mark.parametrize("version", ["1.29.0", "1.33.0", "1.37.0"])
def test_the_manifest_keeps_the_schema_of_kubernetes(version: str) -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate (pip install it)")
    for document in documents().values():
        validator.validate(document, version, strict=True)
    broken = documents()["DaemonSet"]
    broken["spec"]["template"]["spec"]["containers"][0]["securityContext"]["capabilites"] = {}
    with pytest.raises(validator.ValidationError):
        validator.validate(broken, version, strict=True)


def test_the_objects_of_the_manifest_belong_together() -> None:
    found = documents()
    assert found.keys() == {"Namespace", "ServiceAccount", "DaemonSet"}
    name = found["Namespace"]["metadata"]["name"]
    assert {one["metadata"].get("namespace", name) for one in found.values()} == {name}
    assert pod()["serviceAccountName"] == found["ServiceAccount"]["metadata"]["name"]
    wanted = found["DaemonSet"]["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= found["DaemonSet"]["spec"]["template"]["metadata"]["labels"].items()


def test_the_daemon_set_starts_headway_with_options_that_exist() -> None:
    values = serve_options(container()["args"])
    assert values["everything"] is True
    assert values["by"] == "container"
    (port,) = container()["ports"]
    assert parse_address(values["where"]).port == port["containerPort"]
    (mount,) = container()["volumeMounts"]
    (volume,) = pod()["volumes"]
    assert mount["name"] == volume["name"]
    # The secret has the key "token"; headway refuses a file that others can read.
    assert values["token_file"] == f"{mount['mountPath']}/token"
    assert volume["secret"]["defaultMode"] & 0o077 == 0
    assert f"create secret generic {volume['secret']['secretName']} --from-literal=token=" in DAEMONSET.read_text()


def test_the_daemon_set_sees_the_nodes_processes_and_may_do_nothing_else() -> None:
    assert pod()["hostPID"] is True
    assert not pod().get("hostNetwork")
    assert not pod().get("hostIPC")
    assert pod()["automountServiceAccountToken"] is False
    assert not any("hostPath" in volume for volume in pod()["volumes"])
    allowed = container()["securityContext"]
    assert allowed["privileged"] is False
    assert allowed["allowPrivilegeEscalation"] is False
    assert allowed["readOnlyRootFilesystem"] is True
    assert allowed["capabilities"]["drop"] == ["ALL"]


def test_the_daemon_set_has_the_units_capabilities_and_those_to_become_another_user() -> None:
    unit = unit_words(unit_settings(UNIT.read_text()), "Service.CapabilityBoundingSet")
    wanted = {name.removeprefix("CAP_") for name in unit} | {"SETUID", "SETGID"}
    allowed = container()["securityContext"]
    assert set(allowed["capabilities"]["add"]) == wanted
    assert allowed["runAsUser"] == 0
    assert f"--cap-add={','.join(sorted(wanted))} " in CONTAINERFILE.read_text()


def test_the_probes_of_the_daemon_set_ask_what_headway_answers() -> None:
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        probe = container()[name]
        assert probe["httpGet"] == {"path": HEALTH, "port": container()["ports"][0]["name"]}
        assert probe["timeoutSeconds"] > 10  # so long an answer takes at most
