import pathlib
def headers(file):
    """What an estimator's file says of itself: its comments `# key: value`, and `about`."""
    lines = [line.removeprefix("# ") for line in file.read_text().splitlines() if line.startswith(("# ", "about:"))]
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
def write(*a): print("page", len(a))
