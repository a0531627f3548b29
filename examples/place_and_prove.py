"""Place and prove: memory on the node that was asked for, each page looked up afterwards.

python examples/place_and_prove.py
"""

from zerosys import Bind, PlacementError, SharedRegion, topology


def main() -> None:
    machine = topology()
    node = min(machine.allowed_nodes)
    try:
        region = SharedRegion.create("16MiB", policy=Bind(node))
    except PlacementError as refusal:  # a container whose seccomp profile forbids mbind
        print(f"not placed, and said so: {refusal}")
        return

    with region:
        assert region.verify().ok
        found = region.placement()
        assert set(found.nodes) == {node}
        print(f"{found.pages} pages of {region.page_size} bytes, on nodes {found.nodes}")

    missing = max(machine.nodes) + 1
    try:
        SharedRegion.create(4096, node=missing)
    except PlacementError as error:
        print(f"node {missing} is an error, never node 0: {error}")
    else:
        raise AssertionError(f"node {missing} does not exist")

    # Untouched memory has no place yet; asking does not give it one.
    with SharedRegion.create("16MiB", node=node, populate=False) as later:
        assert later.placement().absent == later.placement().pages
        memoryview(later)[0] = 1
        assert later.placement().nodes == {node: 1}
        print("unpopulated: one page written, one page exists, and it is on the node")


if __name__ == "__main__":
    main()
