"""The picture of a schedule shows who made which version, and who lost a put."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from rowlock_simulation.picture import Put, drawn, puts
from rowlock_simulation.plans import plan_of
from rowlock_simulation.run import run
from rowlock_simulation.scheduler import Trace

_SVG = "{http://www.w3.org/2000/svg}"


def test_who_made_a_version_and_who_lost_the_put():
    name = "_delta_log/00000000000000000003.json"
    trace = Trace([(1, "a0", f"create {name}: sent twice"), (2, "a0", f"create {name}: PreconditionError"), (3, "a1", f"create {name}: AlreadyExistsError")])
    trace += [(4, "a1", f"get {name}: done"), (5, "a1", f"create {name.replace('3', '4')}: stall"), (6, "a1", f"create {name.replace('3', '4')}: done")]
    assert puts(trace) == [Put(0, "a0", 3, True), Put(1, "a0", 3, False), Put(2, "a1", 3, False), Put(5, "a1", 4, True)]


def test_every_actor_has_a_lane_and_every_version_a_mark():
    for world in ("s3", "local", "dynamodb", "tables"):
        result = run(plan_of(world, 7))
        picture = ET.fromstring(drawn(result))
        texts = [t.text for t in picture.iter(f"{_SVG}text")]
        assert [t for t in texts if t and ", process " in t] == [f"{a.name}, process {a.process}" for a in result.plan.actors]
        won = {p.version for p in puts(result.trace) if p.won and p.actor.startswith("a")}
        assert won and {str(v) for v in won} <= set(texts), world
        bars = list(picture.iter(f"{_SVG}rect"))
        assert len(bars) - 4 == sum(o.actor.startswith("a") and o.status != "running" for o in result.outcomes), world
