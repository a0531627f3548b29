from collections.abc import Iterable
from typing import NoReturn

def execvpe(file: bytes, arguments: Iterable[bytes], environment: Iterable[bytes]) -> NoReturn: ...
