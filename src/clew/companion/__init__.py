"""The companion: a careful, supportive conversation partner, built on the runtime."""
