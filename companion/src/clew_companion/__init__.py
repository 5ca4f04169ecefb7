"""The companion: a careful, supportive conversation partner, built on the runtime."""

__version__ = "0.1.0"
