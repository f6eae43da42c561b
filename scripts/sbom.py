"""What the program is made of, as CycloneDX 1.5: reads `cargo metadata` on standard input; the arguments are libraries that are loaded when it runs, as
`libtorch@2.11.0`. Crates that only tests or builds need are left out."""
import json, sys

metadata = json.load(sys.stdin)
packages = {package["id"]: package for package in metadata["packages"]}
needs = {node["id"]: [dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])] for node in metadata["resolve"]["nodes"]}
root = metadata["resolve"]["root"]
linked, waiting = set(), [root]
while waiting:
    if (crate := waiting.pop()) not in linked:
        linked.add(crate)
        waiting += needs[crate]


def component(package):
    purl = f"pkg:cargo/{package['name']}@{package['version']}"
    said = {"type": "library", "bom-ref": purl, "name": package["name"], "version": package["version"], "purl": purl}
    if package["license"]:
        said["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    return said


ref = {crate: component(packages[crate])["bom-ref"] for crate in linked}
crates = sorted(linked - {root}, key=ref.get)
libraries = [dict(zip(("name", "version"), argument.split("@")), **{"type": "library", "bom-ref": argument}) for argument in sys.argv[1:]]
bom = {
    "bomFormat": "CycloneDX",
    "specVersion": "1.5",
    "version": 1,
    "metadata": {"component": {**component(packages[root]), "type": "application"}},
    "components": [component(packages[crate]) for crate in crates] + libraries,
    "dependencies": [{"ref": ref[crate], "dependsOn": sorted(ref[need] for need in needs[crate] if need in linked)} for crate in [root, *crates]],
}
json.dump(bom, sys.stdout, indent=1)
