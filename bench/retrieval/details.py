"""Small facts that only stand in the way: near-misses for most of the questions."""

from __future__ import annotations

ITEMS = """
the blue bicycle|the shed|2014
the red scarf|the hall|2019
the silver ring|the drawer|2008
the old radio|the kitchen|1997
the green tent|the cellar|2016
the leather bag|the wardrobe|2021
the sewing machine|the study|2011
the coffee grinder|the shelf|2020
the wooden chair|the balcony|2003
the photo album|the chest|1989
the running shoes|the doormat|2023
the telescope|the attic|2012
the chessboard|the living room|1995
the fishing rod|the garage|2001
the guitar|the corner|2006
the record player|the sideboard|2018
the hiking boots|the porch|2017
the board games|the bookcase|2015
the umbrella|the car|2022
the hammock|the garden|2013
"""
OF_ITEMS = (
    "I keep {item} in {place}.",
    "I bought {item} in {year}.",
    "{item} was a present, I would never sell it.",
)

MONTHS = """
January|the dentist|a tax form
February|the optician|a ski pass
March|the tax office|a spring clean
April|the vet|a bicycle check
May|the gardener|a choir concert
June|the driving school|a school party
July|the travel agent|a street fair
August|the plumber|a boat trip
September|the bank|a talk
October|the carpenter|a harvest fair
November|the physiotherapist|a flu jab
December|the notary|a market
"""
OF_MONTHS = ("In {month} I have an appointment with {whom}.", "There is {what} in {month}.")

PLACES = """
Antwerp
Basel
Cork
Dresden
Evora
Florence
Ghent
Hamburg
Izmir
Jerez
Krakow
Ljubljana
Mostar
Nantes
Odense
Palermo
Quimper
Riga
Salzburg
Tallinn
"""
OF_PLACES = ("I once spent a weekend in {place}.", "The hotel in {place} was too loud for me.")

FILMS = """
a western
a silent film
a musical
a courtroom drama
a ghost story
a road movie
a nature documentary
a heist film
a love story
a spy film
a cartoon
a war film
"""
OF_FILMS = ("Last month we watched {film} and I fell asleep.",)

QUESTIONS = """
Where do I keep the telescope?|I keep the telescope in the attic.
Since when have I had the sewing machine?|I bought the sewing machine in 2011.
Where is the fishing rod?|I keep the fishing rod in the garage.
When did I buy the record player?|I bought the record player in 2018.
Which appointment do I have in April?|In April I have an appointment with the vet.
When do I see the notary?|In December I have an appointment with the notary.
What is going on in May?|There is a choir concert in May.
Have I ever been to Tallinn?|I once spent a weekend in Tallinn.
Was I in Florence?|I once spent a weekend in Florence.
Which present would I never sell, the guitar?|the guitar was a present, I would never sell it.
When do I have my teeth checked?|In January I have an appointment with the dentist.
Is there something to shelter me from rain in the car?|I keep the umbrella in the car.
During which film about ghosts did I doze off?|Last month we watched a ghost story and I fell asleep.
"""
