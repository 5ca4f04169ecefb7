"""The people in a made-up life, and how one asks about them."""

from __future__ import annotations

PEOPLE = """
sister|Ann|Lisbon|nurse|the third of May
brother|Tomas|Gdansk|carpenter|New Year's Eve
mother|Ruth|Leeds|retired librarian|the ninth of October
father|Karim|Leeds|bus driver|the first of March
grandmother|Elsie|Whitby|former dressmaker|midsummer day
grandfather|Joaquim|Faro|beekeeper|the twentieth of February
aunt|Hannah|Oslo|violin teacher|the second of August
uncle|Bertil|Malmö|electrician|the eleventh of June
cousin|Priya|Pune|data analyst|Valentine's Day
niece|Lotte|Utrecht|pupil in primary school|the fifth of December
nephew|Milo|Utrecht|apprentice baker|the thirtieth of April
partner|Jonas|the same flat as me|paramedic|the eighteenth of January
best friend|Amara|Nairobi|architect|the tenth of November
boss|Mr Delgado|Madrid|head of logistics|the sixth of September
therapist|Dr Weiss|Vienna|psychologist|the fourteenth of July
neighbour|Mrs Okafor|the flat below|pharmacist|Easter Monday
roommate from college|Sven|Reykjavik|geologist|the twenty-first of March
running partner|Chloé|Lyon|pastry chef|the seventh of July
daughter|Mina|her dad's place on weekends|kindergarten child|the twelfth of April
stepson|Leo|Bristol|drummer in a band|the ninth of May
landlord|Anton|Graz|former judge|the third of January
piano teacher|Yuki|Osaka|concert pianist|Christmas Eve
godmother|Annika|Tampere|midwife|the last day of October
colleague|Farid|Tunis|accountant|the sixteenth of August
ex|Daniel|Porto|photographer|the first of April
"""

IS_NAMED = (
    "My {relation} is called {name}.",
    "{name} is the name of my {relation}.",
    "I should tell you about my {relation}, {name}.",
)
LIVES = (
    "{name} moved to {city} a while ago.",
    "My {relation} lives in {city} now.",
    "{name}, my {relation}, has settled in {city}.",
)
WORKS = ("{name} works as a {job}.", "My {relation} is a {job}.", "{name} has been a {job} for years.")
BIRTHDAYS = (
    "{name}'s birthday is on {day}.",
    "My {relation} turns another year older on {day}.",
    "We always celebrate {name} on {day}.",
)

ASK_NAME = ("What's my {relation} called again?", "I forgot the name of my {relation}")
ASK_CITY = ("Where is {name} living these days?", "In which town could I visit my {relation}?")
ASK_JOB = ("What does {name} do for a living?", "What is my {relation}'s profession?")
ASK_DAY = ("When should I congratulate {name}?", "I need a present for my {relation}, when is the big day?")

OTHER_LANGUAGES = """
name|sister|Wie heißt meine Schwester?
name|boss|¿Cómo se llama mi jefe?
name|daughter|Comment s'appelle ma fille ?
city|sister|Wo wohnt Ann?
city|brother|Où habite Tomas ?
city|aunt|¿Dónde vive Hannah?
city|best friend|In welcher Stadt lebt Amara?
job|uncle|Was macht Bertil beruflich?
job|running partner|Quel est le métier de Chloé ?
job|piano teacher|¿En qué trabaja Yuki?
day|partner|Wann hat Jonas Geburtstag?
day|nephew|Quand est l'anniversaire de Milo ?
day|godmother|¿Cuándo cumple años Annika?
day|ex|Wann ist Daniels Geburtstag?
"""
"""What is asked, of whom, in another language than the fact is in."""
