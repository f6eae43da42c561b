"""Scenes for ALFWorld's engine, made anew from a number: the official games come from recordings that aren't in the package.

A scene has the furniture of one of AI2-THOR's 120 rooms at the places that the package lists, and the objects of that room, put at
random where the package's tables say that they may lie. The six kinds of task, their goals and their sentences are the package's.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import alfworld.gen.constants as constants
import alfworld.gen.goal_library as goals

LAYOUTS = Path(constants.__file__).parent / "layouts"
TYPES = ("pick_and_place_simple", "look_at_obj_in_light", "pick_clean_then_place_in_recep", "pick_heat_then_place_in_recep",
         "pick_cool_then_place_in_recep", "pick_two_obj_and_place")
NEEDS = {"pick_clean_then_place_in_recep": ("SinkBasin", "Cleanable"), "pick_heat_then_place_in_recep": ("Microwave", "Heatable"),
         "pick_cool_then_place_in_recep": ("Fridge", "Coolable")}
FURNITURE = {name for name in constants.RECEPTACLES if name not in constants.MOVABLE_RECEPTACLES_SET}
MADE = {"StoveBurner": 4, "CoffeeMachine": 1, "Toaster": 1}
"""Furniture that a room may list without a place."""


class Scene(NamedTuple):
    """A task in a scene: the problem in PDDL, and what the engine's expert is told of it."""

    problem: str
    about: Dict[str, Any]
    sentence: str


def make(kind: str, rooms: List[int], number: int) -> Scene:
    """The scene of this number, in one of these rooms."""
    draw = random.Random(f"{kind} {number}")
    for _ in range(1000):
        scene = attempt(kind, draw.choice(rooms), draw)
        if scene is not None:
            return scene
    raise ValueError(f"no room of {rooms} has a task of the kind {kind}")


def attempt(kind: str, room: int, draw: random.Random) -> Optional[Scene]:
    """A scene of this kind in this room, if the room has what it needs."""
    places: Dict[str, List[float]] = json.loads((LAYOUTS / f"FloorPlan{room}-openable.json").read_text())
    listed = sorted(set(json.loads((LAYOUTS / f"FloorPlan{room}-objects.json").read_text())))
    furniture = {name: spot(place) for name, place in sorted(places.items()) if type_of(name) in FURNITURE}
    for name, count in MADE.items():
        if name in listed:
            near = [spot(place) for other, place in sorted(places.items()) if type_of(other) == "CounterTop"]
            if near:
                furniture.update({mangle(name, draw): draw.choice(near) for _ in range(count)})
    furniture = apart(furniture)
    kinds = {type_of(name) for name in furniture}
    allowed = constants.VAL_RECEPTACLE_OBJECTS
    placed = [name for name in listed if name in constants.OBJECTS_SET and name not in FURNITURE]
    homes = {name: sorted(r for r in kinds if name in allowed.get(r, ())) for name in placed}
    lamps = [name for name in ("DeskLamp", "FloorLamp") if name in listed]
    stands = sorted(kinds & {"Desk", "SideTable", "Dresser", "DiningTable", "CoffeeTable"})
    if kind == "look_at_obj_in_light":
        if not lamps or not stands:
            return None
        targets, goal_places = [name for name in placed if homes[name] and name not in lamps], [""]
    else:
        need, ability = NEEDS.get(kind, ("", ""))
        if need and need not in kinds:
            return None
        targets = [name for name in placed if len(homes[name]) > 1 and name not in lamps
                   and (not ability or name in constants.VAL_ACTION_OBJECTS[ability])]
        goal_places = []
    if not targets:
        return None
    target = draw.choice(targets)
    goal = draw.choice(goal_places or homes[target])
    lamp = draw.choice(lamps) if kind == "look_at_obj_in_light" else ""
    objects: Dict[str, str] = {}
    for name in placed:
        most = 3 if name != target else 1 + draw.randrange(3)
        for _ in range(max(1 + draw.randrange(most), 2 if name == target and kind == "pick_two_obj_and_place" else 1)):
            at = [r for r in furniture if type_of(r) in homes[name] and not (name == target and type_of(r) == goal)]
            if name in lamps:
                at = [r for r in furniture if type_of(r) in stands]
            if at:
                objects[mangle(name, draw)] = draw.choice(at)
            if name in lamps:
                break
    count = sum(type_of(name) == target for name in objects)
    if count < (2 if kind == "pick_two_obj_and_place" else 1) or lamp and not any(type_of(name) == lamp for name in objects):
        return None
    sentence = draw.choice(goals.gdict[kind]["templates"]).format(obj=target.lower(), recep=goal.lower(), toggle=lamp.lower(), mrecep="")
    about = {"task_type": kind, "pddl_params": {"object_target": target, "parent_target": goal, "toggle_target": lamp, "mrecep_target": "",
                                                "object_sliced": False}}
    start = draw.choice(sorted(furniture.values()))
    return Scene(problem(furniture, objects, (start[0], start[1], start[2] + 4, 30), goals.gdict[kind]["pddl"].format(
        obj=target, recep=goal, toggle=lamp, mrecep="")), about, sentence)


Spot = Tuple[int, int, int, int]


def type_of(name: str) -> str:
    """The type of a thing: Sink|...|SinkBasin is a SinkBasin."""
    first, last = name.split("|")[0], name.split("|")[-1]
    return last if last.endswith("Basin") else first


def spot(place: List[float]) -> Spot:
    return round(place[0] * 4), round(place[1] * 4), round(place[2] / 90), round(place[3])


def apart(furniture: Dict[str, Spot]) -> Dict[str, Spot]:
    """A place of its own for each piece: the engine doesn't let one walk to where one stands."""
    taken: Dict[Spot, str] = {}
    for name, (x, z, turn, tilt) in furniture.items():
        while (x, z, turn, tilt) in taken:
            x += 1
        taken[x, z, turn, tilt] = name
    return {name: place for place, name in taken.items()}


def mangle(name: str, draw: random.Random) -> str:
    return "|".join([name, *(f"{draw.uniform(-5, 5):+06.2f}" for _ in range(3))])


def problem(furniture: Dict[str, Spot], objects: Dict[str, str], start: Spot, goal: str) -> str:
    """The scene as a PDDL problem of the package's domain."""
    can = constants.VAL_ACTION_OBJECTS
    spots = sorted({*furniture.values(), start})
    rtypes = sorted({type_of(name) for name in furniture})
    otypes = sorted({type_of(name) for name in objects})
    facts = [f"(atLocation agent1 {loc(start)})"]
    for name, place in furniture.items():
        facts += [f"(receptacleType {name} {type_of(name)}Type)", f"(receptacleAtLocation {name} {loc(place)})"]
        if type_of(name) in constants.OPENABLE_CLASS_SET:
            facts.append(f"(openable {name})")
    for name, home in objects.items():
        kind = type_of(name)
        facts += [f"(objectType {name} {kind}Type)", f"(inReceptacle {name} {home})", f"(objectAtLocation {name} {loc(furniture[home])})"]
        for fact, listed in (("cleanable", can["Cleanable"]), ("heatable", can["Heatable"]), ("coolable", can["Coolable"]),
                             ("toggleable", can["Toggleable"]), ("isReceptacleObject", constants.MOVABLE_RECEPTACLES_SET)):
            if kind in listed:
                facts.append(f"({fact} {name})")
        if kind not in can["Toggleable"]:
            facts.append(f"(pickupable {name})")
    facts += [f"(canContain {rtype}Type {otype}Type)" for rtype in rtypes for otype in otypes
              if otype in constants.VAL_RECEPTACLE_OBJECTS.get(rtype, ())]
    things = ["agent1 # agent", *(f"{name} # receptacle" for name in furniture), *(f"{name} # object" for name in objects),
              *(f"{loc(place)} # location" for place in spots), *(f"{name}Type # rtype" for name in rtypes),
              *(f"{name}Type # otype" for name in otypes)]
    text = "(define (problem scene)\n(:domain alfred)\n(:objects\n" + "\n".join(things) + "\n)\n(:init\n" + "\n".join(facts) + "\n)\n" + goal
    for old, new in (("-", "_minus_"), ("#", "-"), ("|", "_bar_"), ("+", "_plus_"), (".", "_dot_"), (",", "_comma_")):
        text = text.replace(old, new)
    return text


def loc(place: Spot) -> str:
    return "loc|" + "|".join(map(str, place))
