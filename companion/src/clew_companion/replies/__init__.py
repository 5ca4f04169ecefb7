"""How replies are worded: prompt sources, their composition, and what no reply may say."""
