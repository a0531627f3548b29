from typing import final

@final
class Range: ...
