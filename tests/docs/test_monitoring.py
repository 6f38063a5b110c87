"""The files for Prometheus and Grafana: each metric and label in them is exported, and Prometheus understands them."""

import ast
import json
import re
import shutil
import subprocess

import pytest

from jobexec import metrics
from tests.support.suite.databases import ROOT

EXAMPLES = ROOT / "docs" / "examples"
CONFIGURATION, RULES = EXAMPLES / "prometheus.yml", EXAMPLES / "jobexec.yml"
DASHBOARD = json.loads((EXAMPLES / "grafana.json").read_text())
METRIC = re.compile(r"\b(?:jobexec|zeebe)_\w+")
#: A label in a selector or behind "by" and "on".
LABELS = (re.compile(r"(\w+)(?:=~|!~|!=|=)\""), re.compile(r"(?:by|on) \(([\w, ]+)\)"))
SUFFIXES = {"counter": ("",), "gauge": ("",), "summary": ("",), "histogram": ("_bucket", "_sum", "_count")}


def exported():
    """The metrics that the reference documents, with their labels."""
    found = {}
    for line in (ROOT / "docs" / "reference" / "metrics.md").read_text().splitlines():
        cells = line.split(" | ")
        if len(cells) < 3 or cells[1] not in SUFFIXES:
            continue
        for name, labels in re.findall(r"`(\w+)(?:\{([\w,]+)\})?`", cells[0]):
            for suffix in SUFFIXES[cells[1]]:
                found[name + suffix] = {*labels.split(","), "engine", *(["le"] if suffix == "_bucket" else [])}
    return found


def exprs_of_pages():
    """The rules of the guides, file by file."""
    page = (ROOT / "docs" / "how-to" / "workers" / "monitor-external-workers.md").read_text()
    blocks = re.findall(r"^```yaml\n(# [\w.-]+\.yml\ngroups:.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return [RULES.read_text(), *blocks]


def queries():
    """Each query of the dashboard, with the panel's title."""
    return [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]]


def check(text):
    """Nothing in a query or a file of rules is unknown."""
    known = exported()
    used = set(METRIC.findall(text))
    assert used <= known.keys()
    labels = set(LABELS[0].findall(text)) | {name for found in LABELS[1].findall(text) for name in found.split(", ")}
    assert labels <= set.union(*(known[name] for name in used))


def promtool(*arguments, **keys):
    program = shutil.which("promtool") or pytest.skip("there is no promtool (package prometheus)")
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False, **keys)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_the_reference_documents_is_exported():
    code = ast.parse((ROOT / "jobexec" / "metrics.py").read_text())
    names = {node.value for node in ast.walk(code) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    names |= {f"jobexec_node_{name}" for name in metrics._NODE_GAUGES}
    documented = {name for name in exported() if not name.startswith(("zeebe", "jobexec_gateway"))}
    assert {name for name in documented if re.sub(r"_(total|bucket|sum|count|capped)$", "", name) not in names} == set()
    assert len(documented) > 40


@pytest.mark.parametrize("text", exprs_of_pages(), ids=["cluster", "external"])
def test_rules(text, tmp_path):
    check(re.sub(r"labels: \{severity: \w+\}|annotations: .*|alert: .*|name: .*", "", text))
    (tmp_path / "rules.yml").write_text(text)
    promtool("check", "rules", tmp_path / "rules.yml")


def test_the_configuration():
    assert "SUCCESS" in promtool("check", "config", "--syntax-only", CONFIGURATION)


@pytest.mark.parametrize(("title", "query"), queries())
def test_each_query_of_the_dashboard(title, query, tmp_path):
    check(query)
    plain = query.replace("$__rate_interval", "1m").replace("$engine", ".*")
    record = {"groups": [{"name": "x", "rules": [{"record": "jobexec:panel", "expr": plain}]}]}
    (tmp_path / "panel.yml").write_text(json.dumps(record))
    promtool("check", "rules", tmp_path / "panel.yml")


def test_the_dashboard_is_one_that_grafana_can_import():
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken)), "panels that overlap"
    assert max(x for x, _ in taken) < 24
    variables = {each["name"] for each in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(panels)))
    assert used - {"__rate_interval"} == variables == {"datasource", "engine"}
    for panel in panels:
        for target in panel["targets"]:
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                assert f"({label}" in target["expr"] or f", {label})" in target["expr"]


#: What happens, and which alerts there are then.
SERIES = [
    ("all is well", {}, []),
    ("the site is away", {"jobexec_up": None}, ["JobsNotMeasured"]),
    ("a database is away", {"jobexec_up": "0x120"}, ["JobsNotMeasured"]),
    ("no node lives", {"jobexec_node_up": None}, ["NoJobExecutor"]),
    ("jobs are late", {"jobexec_oldest_due_age_seconds": "301x120"}, ["JobsAreLate"]),
    ("many die", {"jobexec_jobs_dead_lettered_total": "0+5x120"}, ["JobsDieFast"]),
    ("dead letters wait", {"jobexec_incidents": "3x120"}, ["OpenIncidents"]),
    ("half of the attempts fail", {"jobexec_jobs_failed_total": "0+60x120"}, ["HandlerFails"]),
    (
        "all attempts fail",
        {"jobexec_jobs_failed_total": "0+60x120", "jobexec_jobs_successful_total": None},
        ["HandlerFails"],
    ),
    ("no thread is free", {"jobexec_node_busy_threads": "10x120"}, ["ExecutorsAreFull"]),
    ("a thread is stuck", {"jobexec_node_stuck_threads": "1x120"}, ["StuckThreads"]),
    ("a node died", {"jobexec_jobs_recovered_total": "0x90 4x30"}, ["ExecutorsDie"]),
    ("a suspension is new", {"jobexec_suspensions": "1x120"}, []),
]
WELL = {
    "jobexec_up": "1x120",
    "jobexec_node_up": "1x120",
    "jobexec_node_threads": "10x120",
    "jobexec_node_busy_threads": "3x120",
    "jobexec_node_stuck_threads": "0x120",
    "jobexec_oldest_due_age_seconds": "0x120",
    "jobexec_jobs_dead_lettered_total": "0x120",
    "jobexec_jobs_failed_total": "0x120",
    "jobexec_jobs_successful_total": "0+60x120",
    "jobexec_jobs_recovered_total": "0x120",
    "jobexec_incidents": "0x120",
    "jobexec_suspensions": "0x120",
}


@pytest.mark.parametrize(("changes", "alerts"), [each[1:] for each in SERIES], ids=[each[0] for each in SERIES])
def test_what_is_wrong_is_an_alert_and_nothing_else(changes, alerts, tmp_path):
    known = exported()
    series = []
    for name, values in (WELL | changes).items():
        assert name in known
        labels = ['engine="default"', *(f'{label}="x"' for label in ("node", "handler") if label in known[name])]
        if values is not None:
            series.append({"series": f"{name}{{{', '.join(labels)}}}", "values": values})
    every = re.findall(r"alert: (\w+)", RULES.read_text())
    query = 'count by (alertname) (ALERTS{alertstate="firing"})'
    expected = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in alerts]
    test = {
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [{"expr": query, "eval_time": "2h", "exp_samples": expected}],
    }
    assert set(alerts) <= set(every)
    (tmp_path / "test.yml").write_text(json.dumps({"rule_files": [str(RULES)], "tests": [test]}))
    promtool("test", "rules", tmp_path / "test.yml")
