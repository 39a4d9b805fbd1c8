"""The JSON Schema of `sluice config schema`, held against `sluice check` by a foreign validator (jsonschema).

What `sluice check` accepts, the schema accepts; and of single values that are out of bounds, of another type or unknown, both
say the same. A configuration with everything in it is taken, and each of its fields is replaced by each such value.
"""
import concurrent.futures
import copy
import json
import os
import re
import subprocess
import tempfile
import threading
from pathlib import Path

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SLUICE = os.environ["SLUICE"]

# With the key of a link to an accelerator, which `sluice check` reads.
FOLDER = tempfile.TemporaryDirectory()
KEY = Path(FOLDER.name) / "key"
KEY.touch(0o600)
KEY.write_text("ab" * 32)

WHOLE = """
node: {id: 127.0.0.8}
n4: {addresses: [127.0.0.8], peers: [127.0.0.0/8, {prefix: 10.0.0.0/8, interface: sxa, retain_sessions: true}], smfs: [127.0.0.9], device: lo}
gtpu: {echo: {interval_s: 60}, restoration_s: 30, path_mtu_s: 600, path_mtu_least: 1280, answers: {others_s: 5}}
icmp: {errors_s: 1}
workers: {cores: [0], slow_path_per_burst: {stale: 3}, idle: busy, rebalance: {after_s: 1}}
slices: []
limits: {sessions: 5}
control: {socket: /tmp/s, group: root, versions: /tmp/v}
log: {level: info}
flows: {idle_s: {udp: 5}}
fragments: {held: 3}
inspection: {hosts: 64, resolvers: [10.45.0.53/32], addresses: 64, address_lifetime_s: {least: 0}, ndpi: {flows: 64}}
reassembly: {held: 3}
buffering: {packets: 5}
egress: {packets: 64, bytes: 100000, queues: 16, classes: [{name: v, qfis: [1], priority: 0, weight: 2, bytes: 2000, aqm: l4s}, {name: w, aqm: {wred: {min_bytes: 9, max_bytes: 99, one_in: 5, weight_log2: 3, yellow: {min_bytes: 1, max_bytes: 9, one_in: 2}}}}]}
records: {directory: /var/spool/sluice}
store: {directory: /var/lib/sluice/store, checkpoint_s: 1, deadline_ms: 1000, at_stop: release}
alarms: {}
dpdk: {buffers: 32768}
ports:
  - {name: a, driver: {memory: {}}, mtu: 1500, descriptors: 64}
  - {name: b, driver: {af_packet: {interface: b}}, checksums: auto, egress_kbit: 9}
  - {name: c, driver: {memory: {}}}
  - {name: d, driver: {memory: {}}}
  - {name: e, lag: {mode: lacp, members: [c, d], lacp: {fast: true, key: 3}, hash: l3}}
  - {name: f, driver: {memory: {}}, mtu: 2000}
  - {name: g, driver: {accelerator: {mac: "02:00:00:00:00:07"}}}
accelerator:
  link: {port: f, key: /etc/sluice/key, channel: 3, vlan: 9, peer: "02:00:00:00:00:09", lost_after_ms: 100}
  policy: {after_packets: 3, after_octets: 100, qfis: [1, 9], instances: [internet], rulebases: [r], stays_s: 4, sessions: 5}
instances:
  - {name: access, roles: [n3], port: a, addresses: [10.1.0.1/24]}
  - name: internet
    roles: [n6]
    port: b
    vlan: {outer: 7, inner: 8}
    vrf: 3
    addresses: [10.2.0.1/24]
    routes: [{to: 0.0.0.0/0, via: 10.2.0.2, mac: "02:00:00:00:00:01"}]
    dscp: [{qfi: 9, dscp: 10, yellow: 12, pcp: 3}]
    mirror: e
    host: {interface: tap0, urgent_pps: 5}
    urgent_dscp: [46]
    hairpin: local
    fragment: outer
    mss: 1400
    egress: {kbit: 5}
    ue_prefixes: [10.45.0.0/16]
pools: [{name: p, instance: internet, ipv4: [10.45.1.0/24, 10.45.0.1-10.45.0.9], ipv6: [{prefix: "2001:db8::/48", length: 64}]}]
neighbours: {attempts: 2}
routers: {check_ms: 100}
forwarding_policies: [{name: f, instance: internet, next_hop: 10.2.0.3, dscp: 3, nat_pool: n}]
policers: [{name: q, slice: {sst: 1, sd: "000001"}, dnn: internet, uplink_kbit: 5}]
access_lists:
  - name: l
    slice: {sst: 1, sd: "000002"}
    dnn: internet
    rules: [{name: r, action: reject, direction: uplink, flows: [permit out 6 from any 25 to assigned], tos: [4, 252]},
            {action: redirect, redirect_to: "http://a.example/", hosts: [b.example], categories: [g], protocols: [tls], applications: [a]},
            {action: sinkhole, protocols: [dns], sinkhole: {ipv4: 192.0.2.1, ipv6: "2001:db8::1", ttl_s: 9}}]
    otherwise: solicited
    connections: {filtering: endpoint_independent, unsolicited: reject}
nat_pools:
  - name: n
    instance: internet
    slice: {sst: 1}
    dnn: internet
    smf_only: false
    addresses: [203.0.113.0/28, 198.51.100.10-198.51.100.19]
    ports: {first: 2048, last: 4095}
    block: 64
    filtering: address_dependent
    untranslated: [10.0.0.0/8]
    per_session: {blocks: 2, mappings: 9, mappings_s: 3}
    deterministic: {ues: 10.45.0.0/23}
    forwards: [{ue: 10.45.0.5, port: 80, protocol: tcp, public: 203.0.113.0, public_port: 2400},
               {ue: 10.45.0.5, port: 80, protocol: udp, public: 203.0.113.0, public_port: 2400}]
  - {name: o, instance: internet, smf_only: true, addresses: [203.0.113.32/28], unsolicited: {pages: true, charged: true}}
nat:
  mappings_per_worker: 100
  lifetime_s: {tcp_established: 1, tcp_transitory: 1, udp: 1, icmp: 1}
  block_idle_s: 9
  quarantine_s: 1
  log: {directory: /tmp/n, retention_days: 2, ipfix: {to: "127.0.0.1:4739", transport: tcp, domain: 3}}
domain_lists: [{category: g, file: /etc/passwd}]
connections: {per_worker: 100, per_session: 10, lifetime_s: {tcp_established: 1, tcp_transitory: 1, udp: 1, icmp: 1, other: 1}}
events: [{application: a, detect: [packet]}]
predefined:
  fars: [{id: 0x80000001, action: forward, instance: internet, tos: 4}]
  qers: [{id: 0x80000001, gate_uplink: closed, qfi: 3, mbr_uplink_kbit: 5}]
  urrs: [{id: 0x80000001}]
  applications: [{name: v, hosts: ["*.video.example"], protocols: [rtp]}, {name: a, hosts: [c.example]}]
  application_files: [more.yaml]
  rulebases:
    - name: r
      rules:
        - precedence: 1
          flows: [permit out ip from any to assigned]
          hosts: [shop.example/api]
          categories: [g]
          protocols: [http, ndpi.bittorrent]
          applications: [v]
          confirmed_by_dns: true
          tos: [1, 255]
          far: 0x80000001
          qers: [0x80000001]
          urrs: [0x80000001]
          content: {name: c, rating_group: 1, service_id: 2}
""".replace("/etc/sluice/key", str(KEY))


# An accelerator serves one worker, so slices with workers are in a file of their own.
OF_SLICES = """
node: {id: 127.0.0.8}
n4: {addresses: [127.0.0.8]}
workers: {count: 4}
slices: [{sst: 1, sd: "000001", workers: [2, 3]}, {sst: 255, workers: [3]}]
ports: [{name: a, driver: {memory: {}}}]
instances: [{name: access, roles: [n3], port: a, addresses: [10.1.0.1/24]}]
"""


class Loader(yaml.SafeLoader):
    """YAML 1.2, as editors and Sluice read it: `off` is a word, and so is what looks like a date."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":bool", ":timestamp"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()}
Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(true|false)$"), list("tf"))


@pytest.fixture(scope="module")
def schema():
    done = subprocess.run([SLUICE, "config", "schema"], capture_output=True, check=True)
    schema = json.loads(done.stdout)
    jsonschema.Draft7Validator.check_schema(schema)
    return schema


def accepts(file, document):
    """Whether `sluice check` does."""
    file.with_name("more.yaml").write_text("- {name: w, hosts: [w.example]}\n")
    file.write_text(json.dumps(document))
    done = subprocess.run([SLUICE, "check", "-c", file], capture_output=True, text=True)
    assert done.returncode in (0, 2), done.stderr
    return done.returncode == 0


def is_valid(schema, document):
    return jsonschema.Draft7Validator(schema).is_valid(document)


def objects(schema):
    """The schema of an object or list, which may stand beside null or a short form."""
    if "properties" in schema or "items" in schema:
        return schema
    return next((form for form in schema.get("anyOf", []) if "properties" in form), None)


def places(value, schema, path=()):
    """The path of each value, with its schema."""
    inner = objects(schema)
    if isinstance(value, dict) and inner:
        for name, field in value.items():
            yield (*path, name), inner["properties"][name]
            yield from places(field, inner["properties"][name], (*path, name))
    elif isinstance(value, list) and inner:
        for place, element in enumerate(value):
            yield (*path, place), inner["items"]
            yield from places(element, inner["items"], (*path, place))


def candidates(schema):
    """Values for a field: some that it may have, and some that it may not."""
    yield from [None, True, "true", "nonsense", "7", -1, 0, 1.5, [], {}, [7], {"nonsense": 1}, 10**15]
    forms = [schema, *schema.get("anyOf", []), *schema.get("oneOf", [])]
    for form in forms:
        for bound in ("minimum", "maximum"):
            if bound in form:
                yield from (form[bound] - 1, form[bound], form[bound] + 1)
        if "const" in form:
            yield form["const"]
        yield from form.get("enum", [])


def is_misquoted(schema, value):
    """Whether only quotes are wrong: Sluice takes `true` or 5 for a text where it wants one, and "5" for a number; the schema
    does not."""
    forms = [schema, *schema.get("anyOf", []), *schema.get("oneOf", [])]
    takes_text = any("string" in form.get("type", []) or "enum" in form for form in forms)
    return isinstance(value, (bool, int, float)) if takes_text else value in ("7", "true")


def replaced(document, path, value):
    document = copy.deepcopy(document)
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return document


def test_the_whole_configuration_is_whole(schema, tmp_path):
    """Every field of the schema is in it, but those that are a field's default everywhere."""
    document = yaml.load(WHOLE, Loader)
    assert accepts(tmp_path / "whole.yaml", document)
    assert is_valid(schema, document)
    assert set(schema["properties"]) == set(document), "a section that this test lacks"


def test_the_examples_and_pages_are_valid(schema):
    for file in sorted((ROOT / "examples").glob("*.yaml")):
        document = yaml.load(file.read_text(), Loader)
        errors = list(jsonschema.Draft7Validator(schema).iter_errors(document))
        assert not errors, f"{file}: {errors[0].json_path}: {errors[0].message}"


def test_each_field_of_slices_with_each_value(schema, tmp_path):
    document = yaml.load(OF_SLICES, Loader)
    file = tmp_path / "slices.yaml"
    assert accepts(file, document) and is_valid(schema, document)
    refused = 0
    for path, field in places(document, schema):
        for value in candidates(field) if path[0] == "slices" else ():
            if not is_misquoted(field, value):
                candidate = replaced(document, path, value)
                valid = is_valid(schema, candidate)
                assert valid or not accepts(file, candidate), f"{path} = {value!r}: the schema refuses what Sluice accepts"
                refused += not valid
    assert refused > 50


def test_each_field_with_each_value(schema, tmp_path):
    document = yaml.load(WHOLE, Loader)
    wanted = [(path, value) for path, field in places(document, schema)
              for value in candidates(field) if not is_misquoted(field, value)]

    def look(one):
        """Of a path and a value: whether the schema takes it, and whether Sluice does."""
        candidate = replaced(document, *one)
        folder = tmp_path / f"{threading.get_ident()}"
        folder.mkdir(exist_ok=True)
        return is_valid(schema, candidate), accepts(folder / "candidate.yaml", candidate)

    # Sluice is a process each time: a thread for each core.
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(look, wanted))
    for (path, value), (valid, good) in zip(wanted, found):
        assert valid or not good, f"{path} = {value!r}: the schema refuses what `sluice check` accepts"
    accepted, refused = sum(good for _, good in found), sum(not valid for valid, _ in found)
    print(f"{len(found)} documents: {accepted} accepted by both, {refused} refused by both")
    assert accepted > 200 and refused > 1000


OF_ACCELERATOR = """
link: {port: upf, key: /etc/sluice/key, channel: 3, vlan: 9, peer: "02:00:00:00:00:09", lost_after_ms: 100}
ports:
  - {name: upf, driver: {af_packet: {interface: a}}, mtu: 2000}
  - {name: ran, driver: {af_xdp: {interface: b}}, mtu: 1500, descriptors: 512}
  - {name: dn, driver: {memory: {}}}
core: 1
mode: full
idle: busy
idle_sleep_us: 100
limits: {sessions: 100, flows_ipv4: 2048, flows_ipv6: 2048}
queues: {packets: 8192, bytes: 16777216, queues: 20000}
questions: {flows: 1024, packets: 2048, wait_ms: 10}
counts: {every_ms: 50, lost: 1000}
control: {socket: /run/sluice-accel/control.sock, group: root}
dpdk: {huge_pages: false, memory_mib: 256, buffers: 32768}
log: {level: debug}
""".replace("/etc/sluice/key", str(KEY))


def test_the_schema_of_an_accelerators_file(tmp_path):
    """As of the UPF's: `sluice accel --check` beside the schema."""
    done = subprocess.run([SLUICE, "config", "schema", "--accelerator"], capture_output=True, check=True)
    schema = json.loads(done.stdout)
    jsonschema.Draft7Validator.check_schema(schema)
    document = yaml.load(OF_ACCELERATOR, Loader)
    file = tmp_path / "accelerator.yaml"

    def takes(candidate):
        file.write_text(json.dumps(candidate))
        done = subprocess.run([SLUICE, "accel", "--check", "-c", file], capture_output=True, text=True)
        assert done.returncode in (0, 2), done.stderr
        return done.returncode == 0

    assert set(schema["properties"]) == set(document) and is_valid(schema, document) and takes(document)
    refused = 0
    for path, field in places(document, schema):
        for value in candidates(field):
            if not is_misquoted(field, value):
                candidate = replaced(document, path, value)
                valid = is_valid(schema, candidate)
                assert valid or not takes(candidate), f"{path} = {value!r}: the schema refuses what Sluice accepts"
                refused += not valid
        for bound, step in (("minimum", -1), ("maximum", 1)):
            if bound in field:
                candidate = replaced(document, path, field[bound] + step)
                assert not is_valid(schema, candidate) and not takes(candidate), path
    assert refused > 200
    unknown = {**document, "nonsense": 1}
    assert not is_valid(schema, unknown) and not takes(unknown)


def test_each_number_out_of_bounds_is_refused_by_the_schema(schema, tmp_path):
    """The schema is no looser than the program where a single number is the fault."""
    document = yaml.load(WHOLE, Loader)
    for path, field in places(document, schema):
        for bound, step in (("minimum", -1), ("maximum", 1)):
            if bound in field:
                candidate = replaced(document, path, field[bound] + step)
                assert not is_valid(schema, candidate), (path, field[bound] + step)
                assert not accepts(tmp_path / "bounds.yaml", candidate), (path, field[bound] + step)


def test_a_field_that_is_unknown_or_missing_is_refused_by_both(schema, tmp_path):
    document = yaml.load(WHOLE, Loader)
    file = tmp_path / "fields.yaml"
    for path, field in [((), schema), *places(document, schema)]:
        inner = document
        for step in path:
            inner = inner[step]
        if not isinstance(inner, dict):
            continue
        unknown = replaced(document, (*path, "nonsense"), 1)
        assert not is_valid(schema, unknown) and not accepts(file, unknown), path
        for name in (objects(field) or {}).get("required", []):
            without = copy.deepcopy(document)
            inner = without
            for step in path:
                inner = inner[step]
            del inner[name]
            assert not is_valid(schema, without) and not accepts(file, without), (path, name)
