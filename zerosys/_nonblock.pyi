from typing import final

@final
class Loaned: ...
